// Flushes subnormal numbers to 0: arithmetic on them takes processors up to a hundred times longer.
#pragma once
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace mxlite {

// While this object exists, arithmetic of this thread treats subnormal operands as 0 and writes 0
// for subnormal results; if `on` is false, it keeps both. Has an effect on x86 only.
class FlushSubnormals {
 public:
  explicit FlushSubnormals(bool on = true) : before_(is_on()) { set(on); }
  ~FlushSubnormals() { set(before_); }
  FlushSubnormals& operator=(FlushSubnormals&&) = delete;  // neither copied nor moved

#ifdef __SSE__
  // Returns whether this thread flushes operands and results.
  static bool is_on() { return (_mm_getcsr() & kBits) == kBits; }

 private:
  static constexpr unsigned kBits = 0x8040;  // FTZ and DAZ of the register MXCSR
  static void set(bool on) {
    const unsigned now = _mm_getcsr(), wanted = on ? now | kBits : now & ~kBits;
    if (now != wanted) _mm_setcsr(wanted);
  }
#else
  static bool is_on() { return false; }

 private:
  static void set(bool) {}
#endif

  const bool before_;
};

}  // namespace mxlite
