// Streams with marks. A mark is a point in the order of the stream's work. Another stream or the
// host can wait for the mark although more work has been submitted since.
#pragma once
#include <memory>
#include <string>

#include "cpp/core/stream.h"

namespace mxlite {

class MarkedStream : public Stream {
 public:
  struct Mark {
    virtual ~Mark() = default;
  };
  // Returns the point after all work submitted so far. Call on the thread that submits to the
  // stream. The mark must not outlive the stream.
  virtual std::shared_ptr<Mark> mark() = 0;
  // Makes work submitted to this stream from now on run after the mark, which may belong to another
  // stream and device.
  virtual void wait_for_mark(const Mark& mark) = 0;
  // Blocks until this stream has done the work up to its mark. Throws errors that the device
  // reports. Thread-safe.
  virtual void synchronize_mark(const Mark& mark) = 0;
  // Returns whether this stream has done the work up to its mark. Thread-safe.
  virtual bool has_passed(const Mark& mark) = 0;
  // Makes synchronize and synchronize_mark throw a communicator error from now on. Thread-safe.
  virtual void break_with(const std::string& reason) = 0;
};

}  // namespace mxlite
