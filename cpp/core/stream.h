// Queues of device work. The host fills them and goes on; order between two of them is made with
// wait_for, and the host learns what is done with synchronize.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cpp/core/device.h"

namespace mxlite {

// A device has one of each. Copies have their own, so that they overlap with kernels.
enum class StreamKind : uint8_t { kCompute, kCopyIn, kCopyOut };
inline constexpr int kNumStreamKinds = 3;

class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device device() const = 0;
  // The calling thread is about to fill the stream.
  virtual void enter() = 0;
  // What is given to this stream from now on runs after all that `other`, of any device, has been
  // given so far. Called by this stream's thread while another one may fill `other`.
  virtual void wait_for(Stream& other) = 0;
  // Blocks until everything given so far is done; throws what the device reports. Any thread.
  virtual void synchronize() = 0;
  // Copies bytes between any two of host and devices, in this stream's order. Host memory must stay
  // as it is until the copy is done.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  // Device memory for work given to this stream until the next call of scratch.
  virtual void* scratch(size_t bytes) = 0;

  // What the kernels of this stream keep between calls (library handles); made by the backend's
  // kernels, used only by the thread that fills the stream.
  struct Attachment {
    virtual ~Attachment() = default;
  };
  virtual std::unique_ptr<Attachment>& attachment() = 0;
};

}  // namespace mxlite
