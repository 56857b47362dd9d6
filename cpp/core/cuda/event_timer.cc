#include "cpp/core/cuda/event_timer.h"

#include <chrono>
#include <cmath>

#include "cpp/core/cuda/check.h"
#include "cpp/core/cuda/stream.h"

namespace mxlite::cuda {
namespace {

// CUDA returns times as float milliseconds. Beyond this distance, they are not exact to a
// microsecond.
constexpr float kFarMilliseconds = 4000;

int64_t host_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct EventTimer::Event final : Mark {
  explicit Event(int device_index) : device(device_index) { MX_CUDA(cudaEventCreate(&raw)); }
  ~Event() override {
    const DeviceGuard guard(device, std::nothrow);
    MX_CUDA_NOEXCEPT(cudaEventDestroy(raw));
  }
  Event& operator=(Event&&) = delete;  // neither copied nor moved

  const int device;
  cudaEvent_t raw = nullptr;
};

std::shared_ptr<DeviceTimer::Mark> EventTimer::mark(Stream& stream) {
  auto& own = static_cast<CudaStream&>(stream);
  if (own.is_recording()) return nullptr;
  const DeviceGuard guard(own.device().index);
  auto event = std::make_shared<Event>(own.device().index);
  MX_CUDA(cudaEventRecord(event->raw, own.raw()));
  return event;
}

int64_t EventTimer::nanoseconds(const std::shared_ptr<Mark>& mark) {
  auto event = std::static_pointer_cast<Event>(mark);
  const DeviceGuard guard(event->device);
  MX_CUDA(cudaEventSynchronize(event->raw));
  Anchor& anchor = anchors_[event->device];
  if (!anchor.event) anchor = make_anchor(event->device);
  float milliseconds = 0;
  MX_CUDA(cudaEventElapsedTime(&milliseconds, anchor.event->raw, event->raw));
  const auto at = anchor.nanoseconds + static_cast<int64_t>(double{milliseconds} * 1e6);
  if (std::abs(milliseconds) > kFarMilliseconds) anchor = {std::move(event), at};
  return at;
}

// Records an event that the device reaches immediately, to relate the device's clock to the host's
// clock.
EventTimer::Anchor EventTimer::make_anchor(int device) {
  Anchor anchor{std::make_shared<Event>(device), 0};
  cudaStream_t stream = nullptr;
  MX_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const cudaError_t recorded = cudaEventRecord(anchor.event->raw, stream);
  const cudaError_t reached = cudaEventSynchronize(anchor.event->raw);
  anchor.nanoseconds = host_now();
  MX_CUDA_NOEXCEPT(cudaStreamDestroy(stream));
  check(recorded, "cudaEventRecord");
  check(reached, "cudaEventSynchronize");
  return anchor;
}

}  // namespace mxlite::cuda
