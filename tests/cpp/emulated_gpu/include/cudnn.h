#pragma once
using cudnnHandle_t = struct EmulatedCudnn*;
enum cudnnStatus_t { CUDNN_STATUS_SUCCESS };
