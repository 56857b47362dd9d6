// Implements the functions that communicators need with the CUDA library.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "cpp/core/cuda/accelerator.h"
#include "cpp/core/cuda/check.h"
#include "cpp/kvstore/comm/nccl/nccl_communicator.h"

namespace mxlite::nccl {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1024;

__device__ void multiply(float& x, double factor) { x *= static_cast<float>(factor); }
__device__ void multiply(double& x, double factor) { x *= factor; }
__device__ void multiply(__half& x, double factor) {
  x = __float2half(__half2float(x) * static_cast<float>(factor));
}
__device__ void multiply(__nv_bfloat16& x, double factor) {
  x = __float2bfloat16(__bfloat162float(x) * static_cast<float>(factor));
}
template <class T>
__device__ void multiply(T& x, double factor) {
  x = static_cast<T>(static_cast<double>(x) * factor);
}

template <class T>
__global__ void scale_kernel(T* data, int64_t count, double factor) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    multiply(data[i], factor);
}

template <class T>
void launch(cudaStream_t stream, void* data, int64_t count, double factor) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  const auto grid = static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
  scale_kernel<<<grid, kThreads, 0, stream>>>(static_cast<T*>(data), count, factor);
  MX_CUDA_LAUNCHED("scale_kernel");
}

class CudaRuntime final : public Runtime {
 public:
  std::string physical_id(int device) override {
    char id[64] = {};
    MX_CUDA(cudaDeviceGetPCIBusId(id, sizeof id, device));
    return id;
  }
  std::unique_ptr<Stream> make_stream(int device) override {
    auto& gpus = static_cast<cuda::CudaAccelerator&>(*accelerator());
    return std::make_unique<cuda::CudaStream>(device, gpus.pool(device).raw());
  }
  cudaStream_t raw(Stream& stream) override { return static_cast<cuda::CudaStream&>(stream).raw(); }
  void use(int device) override { MX_CUDA(cudaSetDevice(device)); }
  void scale(Stream& stream, void* data, int64_t count, DType dtype, double factor) override {
    const cuda::DeviceGuard guard(stream.device().index);
    const cudaStream_t to = raw(stream);
    switch (dtype) {
      case DType::kBool:
        if (factor == 0) clear(stream, data, static_cast<size_t>(count));
        return;
      case DType::kFloat16:
        return launch<__half>(to, data, count, factor);
      case DType::kBFloat16:
        return launch<__nv_bfloat16>(to, data, count, factor);
      case DType::kFloat32:
        return launch<float>(to, data, count, factor);
      case DType::kFloat64:
        return launch<double>(to, data, count, factor);
      case DType::kInt8:
        return launch<int8_t>(to, data, count, factor);
      case DType::kUInt8:
        return launch<uint8_t>(to, data, count, factor);
      case DType::kInt32:
        return launch<int32_t>(to, data, count, factor);
      case DType::kUInt32:
        return launch<uint32_t>(to, data, count, factor);
      case DType::kInt64:
        return launch<int64_t>(to, data, count, factor);
      case DType::kUInt64:
        return launch<uint64_t>(to, data, count, factor);
      default:
        fail(ErrorKind::kNotSupported, "nccl: arrays of ", dtype_name(dtype),
             " cannot be scaled, numbers expected");
    }
  }
  void clear(Stream& stream, void* data, size_t bytes) override {
    const cuda::DeviceGuard guard(stream.device().index);
    MX_CUDA(cudaMemsetAsync(data, 0, bytes, raw(stream)));
  }
};

}  // namespace

Runtime& cuda_runtime() {
  static Runtime& runtime = *new CudaRuntime;
  return runtime;
}

}  // namespace mxlite::nccl
