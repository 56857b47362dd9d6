// The CUDA devices of this machine. Each device is initialized on its first use.
#pragma once
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "cpp/core/accelerator.h"
#include "cpp/core/cuda/pinned.h"
#include "cpp/core/cuda/pool.h"
#include "cpp/core/cuda/stream.h"

namespace mxlite::cuda {

class CudaAccelerator final : public Accelerator {
 public:
  explicit CudaAccelerator(int count);

  int count() const override { return static_cast<int>(devices_.size()); }
  AcceleratorInfo info(int device) const override;
  void check_usable(int device) override { get(device); }
  Block allocate(int device, size_t bytes, StreamKind first_user) override;
  void free(int device, Block block, StreamKind stream) noexcept override;
  void release_cached(int device) override;
  MemoryStats stats(int device) const override;
  DeviceMemory memory(int device) override;
  Allocator& pinned() override { return pinned_; }
  Stream& stream(int device, StreamKind kind) override { return cuda_stream(device, kind); }
  void synchronize(int device) override;

  CudaStream& cuda_stream(int device, StreamKind kind);
  MemoryPool& pool(int device) { return get(device).pool; }

 private:
  struct State {
    explicit State(int device);
    MemoryPool pool;
    std::array<CudaStream, kNumStreamKinds> streams;
    CudaStream collectives;
  };
  struct LazyDevice {
    std::once_flag once;
    std::unique_ptr<State> state;
  };
  State& get(int device) const;

  std::vector<std::unique_ptr<LazyDevice>> devices_;
  mutable PinnedAllocator pinned_;  // get() sets the device whose context locks the pages
};

}  // namespace mxlite::cuda
