// The part of the driver that loads and launches code. An image is a text with the names of its
// kernels.
#pragma once
#include "cuda_runtime_api.h"

enum CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_NOT_FOUND = 500,
};
using CUmodule = struct FakeModule*;
using CUfunction = struct FakeFunction*;
using CUstream = cudaStream_t;
enum CUfunction_attribute { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
