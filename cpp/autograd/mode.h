// Recording and training flags of the current thread (autograd.record, autograd.train_mode).
#pragma once

namespace mxlite::autograd {

struct Mode {
  bool recording = false;
  bool training = false;
};
inline thread_local Mode mode;

class ModeScope {
 public:
  explicit ModeScope(Mode m) : old_(mode) { mode = m; }
  ~ModeScope() { mode = old_; }
  ModeScope& operator=(ModeScope&&) = delete;  // neither copied nor moved

 private:
  Mode old_;
};

}  // namespace mxlite::autograd
