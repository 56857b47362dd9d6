// Stores the reason why a group or job failed. Never allocates, because memory may be exhausted.
#pragma once
#include <cstring>

namespace mxlite {

class FailureText {
 public:
  // Stores the text, cut to the size of the buffer. Does nothing if a text is already stored.
  void set(const char* text) noexcept {
    if (!is_set()) std::strncpy(text_, *text ? text : "unknown error", sizeof text_ - 1);
  }
  bool is_set() const noexcept { return text_[0] != 0; }
  const char* get() const noexcept { return text_; }

 private:
  char text_[2048] = {};
};

}  // namespace mxlite
