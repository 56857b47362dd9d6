// Queues of device work. The host submits work and continues; wait_for orders work of two streams,
// and synchronize waits on the host until work is done.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cpp/core/device.h"

namespace mxlite {

// Every device has one of each. Copies have their own streams, so they overlap with kernels.
enum class StreamKind : uint8_t { kCompute, kCopyIn, kCopyOut };
inline constexpr int kNumStreamKinds = 3;

class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device device() const = 0;
  // Must be called by the thread that submits work, before it does.
  virtual void enter() = 0;
  // Work submitted to this stream from now on runs after all work that `other`, of any device, has
  // been given so far. Called by this stream's thread while another thread may submit to `other`.
  virtual void wait_for(Stream& other) = 0;
  // Blocks until all submitted work is done; throws what the device reports. Thread-safe.
  virtual void synchronize() = 0;
  // Copies bytes between host and devices, in this stream's order. Host memory must stay
  // as it is until the copy is done.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  // Returns device memory for work submitted to this stream before the next call of scratch.
  virtual void* scratch(size_t bytes) = 0;

  // State that kernels of this stream keep between calls (library handles); made by the backend's
  // kernels, used only by the thread that submits to the stream.
  struct Attachment {
    virtual ~Attachment() = default;
  };
  virtual std::unique_ptr<Attachment>& attachment() = 0;
};

}  // namespace mxlite
