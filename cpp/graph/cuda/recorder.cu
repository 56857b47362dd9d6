#include <cuda_runtime.h>

#include "cpp/core/cuda/launch.h"
#include "cpp/core/cuda/stream.h"
#include "cpp/graph/cuda/recorder.h"

namespace mxlite::cuda {
namespace {

__global__ void store_random(RandomState* where, RandomState state) { *where = state; }

class CudaGraph final : public graph::DeviceGraph {
 public:
  explicit CudaGraph(CudaStream& stream) : stream_(stream) {
    random_ = static_cast<RandomState*>(stream.allocate(sizeof(RandomState)));
  }
  ~CudaGraph() override {
    const DeviceGuard guard(stream_.device().index, std::nothrow);
    // Waits, because the graph may still be running.
    MX_CUDA_NOEXCEPT(cudaStreamSynchronize(stream_.raw()));
    if (executable_) MX_CUDA_NOEXCEPT(cudaGraphExecDestroy(executable_));
    MX_CUDA_NOEXCEPT(cudaFreeAsync(random_, stream_.raw()));
  }
  CudaGraph& operator=(CudaGraph&&) = delete;  // neither copied nor moved

  void capture(const graph::GraphRecorder::FillFn& fill) {
    CudaStream recording(stream_);
    recording.enter();
    cudaGraph_t graph = nullptr;
    // The thread-local mode allows other threads to allocate and copy on their streams during the
    // capture.
    MX_CUDA(cudaStreamBeginCapture(recording.raw(), cudaStreamCaptureModeThreadLocal));
    try {
      fill(recording, random_);
    } catch (...) {
      if (cudaStreamEndCapture(recording.raw(), &graph) == cudaSuccess && graph)
        MX_CUDA_NOEXCEPT(cudaGraphDestroy(graph));
      cudaGetLastError();
      throw;
    }
    MX_CUDA(cudaStreamEndCapture(recording.raw(), &graph));
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    MX_CUDA_NOEXCEPT(cudaGraphDestroy(graph));
    check(status, "cudaGraphInstantiate");
  }

  void launch(Stream& stream, RandomState random) override {
    const cudaStream_t raw = static_cast<CudaStream&>(stream).raw();
    cudaLaunchConfig_t config{};
    config.gridDim = config.blockDim = dim3(1);
    config.stream = raw;
    launch_kernel(config, store_random, random_, random);
    MX_CUDA(cudaGraphLaunch(executable_, raw));
  }

 private:
  CudaStream& stream_;
  RandomState* random_ = nullptr;  // device memory
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

std::unique_ptr<graph::DeviceGraph> CudaGraphRecorder::record(Stream& stream, const FillFn& fill) {
  auto result = std::make_unique<CudaGraph>(static_cast<CudaStream&>(stream));
  result->capture(fill);
  return result;
}

}  // namespace mxlite::cuda
