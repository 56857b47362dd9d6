// Marks functions that can be called by kernels on every device.
#pragma once

#ifdef __CUDACC__
#define MX_HOST_DEVICE __host__ __device__
#else
#define MX_HOST_DEVICE
#endif
