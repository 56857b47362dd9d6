#include "cpp/ops/cuda/context.h"

#include "cpp/core/accelerator.h"
#include "cpp/core/cuda/stream.h"

namespace mxlite::cuda {
namespace {

constexpr int64_t kCounters = 4096;
constexpr size_t kGemmWorkspaceBytes = size_t{32} << 20;  // cuBLAS's recommendation for Hopper

// Library handles are created on first use, because a copy stream needs none.
class Handles final : public Stream::Attachment {
 public:
  explicit Handles(int device) : device_(device) {
    MX_CUDA(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device));
  }
  ~Handles() override {
    const DeviceGuard guard(device_, std::nothrow);
    if (cublas_) cublasDestroy(cublas_);
    if (cublaslt_) cublasLtDestroy(cublaslt_);
    if (cudnn_) cudnnDestroy(cudnn_);
    if (gemm_workspace_) MX_CUDA_NOEXCEPT(cudaFree(gemm_workspace_));
    if (counters_) MX_CUDA_NOEXCEPT(cudaFree(counters_));
  }

  cublasHandle_t cublas(const CudaStream& stream) {
    if (!cublas_) {
      const DeviceGuard guard(device_);
      MX_CUBLAS(cublasCreate(&cublas_));
      MX_CUBLAS(cublasSetMathMode(cublas_, CUBLAS_DEFAULT_MATH));
    }
    if (stream.id() != cublas_stream_) {
      MX_CUBLAS(cublasSetStream(cublas_, stream.raw()));
      // Setting a stream resets the workspace. Without a workspace from mxlite, a captured graph
      // would allocate one.
      const Workspace w = gemm_workspace();
      MX_CUBLAS(cublasSetWorkspace(cublas_, w.data, w.bytes));
      cublas_stream_ = stream.id();
    }
    return cublas_;
  }
  cublasLtHandle_t cublaslt() {
    if (!cublaslt_) {
      const DeviceGuard guard(device_);
      MX_CUBLAS(cublasLtCreate(&cublaslt_));
    }
    return cublaslt_;
  }
  cudnnHandle_t cudnn(const CudaStream& stream) {
    if (!cudnn_) {
      const DeviceGuard guard(device_);
      MX_CUDNN(cudnnCreate(&cudnn_));
    }
    if (stream.id() != cudnn_stream_) {
      MX_CUDNN(cudnnSetStream(cudnn_, stream.raw()));
      cudnn_stream_ = stream.id();
    }
    return cudnn_;
  }
  Workspace gemm_workspace() {
    if (!gemm_workspace_) {
      const DeviceGuard guard(device_);
      MX_CUDA(cudaMalloc(&gemm_workspace_, kGemmWorkspaceBytes));
    }
    return {gemm_workspace_, kGemmWorkspaceBytes};
  }
  unsigned* counters(const CudaStream& stream) {
    if (!counters_) {
      const DeviceGuard guard(device_);
      void* memory = nullptr;
      MX_CUDA(cudaMalloc(&memory, kCounters * sizeof(unsigned)));
      counters_ = static_cast<unsigned*>(memory);
      MX_CUDA(cudaMemsetAsync(counters_, 0, kCounters * sizeof(unsigned), stream.raw()));
    }
    return counters_;
  }
  int multiprocessors() const { return multiprocessors_; }

 private:
  const int device_;
  int multiprocessors_ = 0;
  cublasHandle_t cublas_ = nullptr;
  cublasLtHandle_t cublaslt_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
  uint64_t cublas_stream_ = 0, cudnn_stream_ = 0;  // ids of the streams that are set
  void* gemm_workspace_ = nullptr;
  unsigned* counters_ = nullptr;
};

Handles& handles(const KernelContext& ctx) {
  std::unique_ptr<Stream::Attachment>& slot = ctx.stream->attachment();
  if (!slot) slot = std::make_unique<Handles>(ctx.device.index);
  return static_cast<Handles&>(*slot);
}

const CudaStream& stream_of(const KernelContext& ctx) {
  return *static_cast<const CudaStream*>(ctx.stream);
}

}  // namespace

cudaStream_t stream(const KernelContext& ctx) { return stream_of(ctx).raw(); }
cublasHandle_t cublas(const KernelContext& ctx) { return handles(ctx).cublas(stream_of(ctx)); }
cublasLtHandle_t cublaslt(const KernelContext& ctx) { return handles(ctx).cublaslt(); }
cudnnHandle_t cudnn(const KernelContext& ctx) { return handles(ctx).cudnn(stream_of(ctx)); }
Workspace gemm_workspace(const KernelContext& ctx) { return handles(ctx).gemm_workspace(); }
unsigned* arrival_counters(const KernelContext& ctx, int64_t count) {
  return count <= kCounters ? handles(ctx).counters(stream_of(ctx)) : nullptr;
}
int multiprocessors(const KernelContext& ctx) { return handles(ctx).multiprocessors(); }

}  // namespace mxlite::cuda
