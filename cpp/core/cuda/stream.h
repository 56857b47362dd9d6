// A CUDA stream, the events that order it, and scratch memory for its kernels.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>

#include "cpp/core/marked_stream.h"

namespace mxlite::cuda {

class CudaStream final : public MarkedStream {
 public:
  // Allocates scratch memory from `pool`, which must outlive the stream.
  CudaStream(int device, cudaMemPool_t pool);
  // Creates a stream that records work for `owner`. The stream uses owner's handles and scratch
  // memory but cannot enlarge that memory.
  explicit CudaStream(CudaStream& owner);
  ~CudaStream() override;
  CudaStream& operator=(CudaStream&&) = delete;  // neither copied nor moved

  Device device() const override { return {DeviceType::kCUDA, device_}; }
  void enter() override;
  void wait_for(Stream& other) override;
  void synchronize() override;
  std::shared_ptr<Mark> mark() override;
  void wait_for_mark(const Mark& mark) override;
  void synchronize_mark(const Mark& mark) override;
  bool has_passed(const Mark& mark) override;
  void break_with(const std::string& reason) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void* scratch(size_t bytes) override;
  std::unique_ptr<Attachment>& attachment() override {
    return owner_ ? owner_->attachment_ : attachment_;
  }

  // Returns memory that is allocated in this stream's order. Free it with cudaFreeAsync.
  void* allocate(size_t bytes);
  cudaStream_t raw() const { return stream_; }
  // Unique in the process, unlike raw(), because a new stream may get the address of a destroyed
  // stream.
  uint64_t id() const { return id_; }
  bool is_recording() const { return owner_ != nullptr; }

 private:
  CudaStream(int device, cudaMemPool_t pool, CudaStream* owner);
  void create();
  void synchronize_event(cudaEvent_t event);

  const uint64_t id_;
  const int device_;
  const cudaMemPool_t pool_;
  CudaStream* const owner_ = nullptr;
  cudaStream_t stream_ = nullptr;
  // This event is recorded repeatedly. A stream that waits for the event waits for the last
  // recorded point, which may be later than the requested point. A longer wait is harmless.
  cudaEvent_t mark_ = nullptr;
  cudaEvent_t done_ = nullptr;  // the host waits for this event
  void* scratch_ = nullptr;     // used only by the thread that submits to the stream
  size_t scratch_bytes_ = 0;
  std::unique_ptr<Attachment> attachment_;
  std::mutex mutex_;
  std::string failure_;  // guarded by mutex_; the reason why the stream is broken, or empty
};

}  // namespace mxlite::cuda
