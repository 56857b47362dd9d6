// Flushes subnormal numbers to 0, because arithmetic on subnormal numbers is up to a hundred times
// slower.
#pragma once
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace mxlite {

// During the object's lifetime, arithmetic of this thread treats subnormal operands as 0 and writes
// 0 for subnormal results. If `on` is false, subnormal operands and results are kept. Has an effect
// on x86 only.
class FlushSubnormals {
 public:
  explicit FlushSubnormals(bool on = true) : before_(is_on()) { set(on); }
  ~FlushSubnormals() { set(before_); }
  FlushSubnormals& operator=(FlushSubnormals&&) = delete;  // neither copied nor moved

#ifdef __SSE__
  // Returns whether this thread flushes operands and results.
  static bool is_on() { return (_mm_getcsr() & kBits) == kBits; }

 private:
  static constexpr unsigned kBits = 0x8040;  // bits FTZ and DAZ of the register MXCSR
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
