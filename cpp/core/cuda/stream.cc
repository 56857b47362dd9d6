#include "cpp/core/cuda/stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "cpp/core/cuda/check.h"
#include "cpp/core/scratch_shortage.h"

namespace mxlite::cuda {
namespace {

constexpr size_t kScratchStep = size_t{1} << 20;
// A sleeping thread wakes up about 50 us late, so synchronize_event first polls the event for this
// time.
constexpr std::chrono::microseconds kSpin{50};

constexpr unsigned kHostWaits = cudaEventDisableTiming | cudaEventBlockingSync;

struct EventMark final : MarkedStream::Mark {
  explicit EventMark(int of_device) : device(of_device) {
    MX_CUDA(cudaEventCreateWithFlags(&event, kHostWaits));
  }
  ~EventMark() override {
    const DeviceGuard guard(device, std::nothrow);
    MX_CUDA_NOEXCEPT(cudaEventDestroy(event));
  }
  const int device;
  cudaEvent_t event = nullptr;
};

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

CudaStream::CudaStream(int device, cudaMemPool_t pool) : CudaStream(device, pool, nullptr) {
  create();
}

CudaStream::CudaStream(CudaStream& owner) : CudaStream(owner.device_, owner.pool_, &owner) {
  create();
}

// If the constructor that delegates to this one throws afterwards, the destructor runs.
CudaStream::CudaStream(int device, cudaMemPool_t pool, CudaStream* owner)
    : id_(next_id()), device_(device), pool_(pool), owner_(owner) {}

void CudaStream::create() {
  const DeviceGuard guard(device_);
  // The stream is not ordered with the legacy default stream, which other libraries may use.
  MX_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  MX_CUDA(cudaEventCreateWithFlags(&mark_, cudaEventDisableTiming));
  MX_CUDA(cudaEventCreateWithFlags(&done_, kHostWaits));
}

CudaStream::~CudaStream() {
  const DeviceGuard guard(device_, std::nothrow);
  attachment_.reset();
  if (scratch_) MX_CUDA_NOEXCEPT(cudaFreeAsync(scratch_, stream_));
  if (mark_) MX_CUDA_NOEXCEPT(cudaEventDestroy(mark_));
  if (done_) MX_CUDA_NOEXCEPT(cudaEventDestroy(done_));
  if (stream_) MX_CUDA_NOEXCEPT(cudaStreamDestroy(stream_));
}

void CudaStream::enter() { MX_CUDA(cudaSetDevice(device_)); }

void CudaStream::wait_for(Stream& other) {
  auto& producer = static_cast<CudaStream&>(other);
  MX_CUDA(cudaEventRecord(producer.mark_, producer.stream_));
  MX_CUDA(cudaStreamWaitEvent(stream_, producer.mark_, 0));
}

void CudaStream::synchronize_event(cudaEvent_t event) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  bool reached = false;
  while (!reached && std::chrono::steady_clock::now() < end) reached = is_reached(event);
  if (!reached) MX_CUDA(cudaEventSynchronize(event));
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) fail(ErrorKind::kCommunicator, failure_);
}

void CudaStream::break_with(const std::string& reason) {
  std::lock_guard lock(mutex_);
  failure_ = reason;
}

void CudaStream::synchronize() {
  const DeviceGuard guard(device_);  // the thread may not have used any device yet
  MX_CUDA(cudaEventRecord(done_, stream_));
  synchronize_event(done_);
}

std::shared_ptr<MarkedStream::Mark> CudaStream::mark() {
  const DeviceGuard guard(device_);
  auto mark = std::make_shared<EventMark>(device_);
  MX_CUDA(cudaEventRecord(mark->event, stream_));
  return mark;
}

void CudaStream::wait_for_mark(const Mark& mark) {
  MX_CUDA(cudaStreamWaitEvent(stream_, static_cast<const EventMark&>(mark).event, 0));
}

void CudaStream::synchronize_mark(const Mark& mark) {
  const DeviceGuard guard(device_);
  synchronize_event(static_cast<const EventMark&>(mark).event);
}

bool CudaStream::has_passed(const Mark& mark) {
  const DeviceGuard guard(device_);
  return is_reached(static_cast<const EventMark&>(mark).event);
}

void CudaStream::copy(void* to, const void* from, size_t bytes) {
  const DeviceGuard guard(device_);
  MX_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
}

void* CudaStream::allocate(size_t bytes) {
  const DeviceGuard guard(device_);
  void* data = nullptr;
  cudaError_t status = cudaMallocFromPoolAsync(&data, bytes, pool_, stream_);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    MX_CUDA(cudaStreamSynchronize(stream_));  // completes pending frees in this stream
    MX_CUDA(cudaMemPoolTrimTo(pool_, 0));
    status = cudaMallocFromPoolAsync(&data, bytes, pool_, stream_);
  }
  check(status, "cudaMallocFromPoolAsync");
  return data;
}

void* CudaStream::scratch(size_t bytes) {
  if (owner_) {
    if (bytes > owner_->scratch_bytes_)
      throw ScratchShortage(str("scratch memory of a recording must have at most ",
                                owner_->scratch_bytes_, " bytes, got a request for ", bytes));
    return owner_->scratch_;
  }
  if (bytes <= scratch_bytes_) return scratch_;
  const DeviceGuard guard(device_);
  const size_t grown =
      (std::max(bytes, scratch_bytes_ * 2) + kScratchStep - 1) / kScratchStep * kScratchStep;
  // Frees in stream order, because submitted work may still use the old block.
  if (scratch_) MX_CUDA(cudaFreeAsync(scratch_, stream_));
  scratch_ = nullptr;
  scratch_bytes_ = 0;
  scratch_ = allocate(grown);
  scratch_bytes_ = grown;
  return scratch_;
}

}  // namespace mxlite::cuda
