// Queues of device work. The host submits work and continues. wait_for orders the work of two
// streams. synchronize makes the host wait until the work has ended.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cpp/core/device.h"

namespace mxlite {

// Every device has one stream of each kind. Copies have separate streams, so that they overlap with
// kernels.
enum class StreamKind : uint8_t { kCompute, kCopyIn, kCopyOut };
inline constexpr int kNumStreamKinds = 3;

class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device device() const = 0;
  // Must be called by a thread before it submits work.
  virtual void enter() = 0;
  // Makes work submitted to this stream from now on run after all work already submitted to
  // `other`, which may belong to another device. Called by this stream's thread while another
  // thread may submit to `other`.
  virtual void wait_for(Stream& other) = 0;
  // Blocks until all submitted work has ended. Throws errors that the device reports. Thread-safe.
  virtual void synchronize() = 0;
  // Copies bytes between host and devices, in this stream's order. The host memory must not change
  // until the copy has ended.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  // Returns device memory for work that is submitted to this stream before the next call of
  // scratch.
  virtual void* scratch(size_t bytes) = 0;

  // State that kernels of this stream keep between calls, such as library handles. The kernels
  // create the state, and only the thread that submits to the stream uses it.
  struct Attachment {
    virtual ~Attachment() = default;
  };
  virtual std::unique_ptr<Attachment>& attachment() = 0;
};

}  // namespace mxlite
