// The kernel that turns a decoded image into a sample of ImageRecordIter.
#pragma once
#include <cuda_runtime_api.h>

#include "cpp/io/gpu/sample_device.h"

namespace mxlite::cuda {

void launch_sample_kernel(cudaStream_t stream, const io::SampleWork& work);

}  // namespace mxlite::cuda
