// Implements nccl::Runtime with the CUDA runtime library.
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

// float16 and bfloat16 are combined in float32.
template <class T>
struct ComputeType {
  using Type = T;
};
template <>
struct ComputeType<__half> {
  using Type = float;
};
template <>
struct ComputeType<__nv_bfloat16> {
  using Type = float;
};

template <class T>
__device__ T combined(T a, T b, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return b < a || b != b ? b : a;
    case ReduceOp::kMax:
      break;
  }
  return b > a || b != b ? b : a;
}

template <class T>
__global__ void combine_kernel(T* data, const T* other, int64_t count, ReduceOp op) {
  using Compute = typename ComputeType<T>::Type;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    data[i] =
        static_cast<T>(combined(static_cast<Compute>(data[i]), static_cast<Compute>(other[i]), op));
}

unsigned blocks_for(int64_t count) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

// Calls fn with a value of the C++ type of this dtype's elements.
void with_number(DType dtype, const char* what, auto&& fn) {
  switch (dtype) {
    case DType::kFloat16:
      return fn(__half{});
    case DType::kBFloat16:
      return fn(__nv_bfloat16{});
    case DType::kFloat32:
      return fn(float{});
    case DType::kFloat64:
      return fn(double{});
    case DType::kInt8:
      return fn(int8_t{});
    case DType::kUInt8:
      return fn(uint8_t{});
    case DType::kInt32:
      return fn(int32_t{});
    case DType::kUInt32:
      return fn(uint32_t{});
    case DType::kInt64:
      return fn(int64_t{});
    case DType::kUInt64:
      return fn(uint64_t{});
    default:
      fail(ErrorKind::kNotSupported, "nccl: arrays to be ", what, " must be of numbers, got ",
           dtype_name(dtype));
  }
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
    if (dtype == DType::kBool) {
      if (factor == 0) clear(stream, data, static_cast<size_t>(count));
      return;
    }
    const cuda::DeviceGuard guard(stream.device().index);
    with_number(dtype, "scaled", [&]<class T>(T) {
      scale_kernel<<<blocks_for(count), kThreads, 0, raw(stream)>>>(static_cast<T*>(data), count,
                                                                    factor);
      MX_CUDA_LAUNCHED("scale_kernel");
    });
  }
  void combine(Stream& stream, void* data, const void* other, int64_t count, DType dtype,
               ReduceOp op) override {
    if (dtype == DType::kBool) {  // bytes are 0 or 1: sum and max mean "or", product and min mean
                                  // "and"
      dtype = DType::kUInt8;
      if (op == ReduceOp::kSum) op = ReduceOp::kMax;
      if (op == ReduceOp::kProduct) op = ReduceOp::kMin;
    }
    const cuda::DeviceGuard guard(stream.device().index);
    with_number(dtype, "combined", [&]<class T>(T) {
      combine_kernel<<<blocks_for(count), kThreads, 0, raw(stream)>>>(
          static_cast<T*>(data), static_cast<const T*>(other), count, op);
      MX_CUDA_LAUNCHED("combine_kernel");
    });
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
