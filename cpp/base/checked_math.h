// Integer arithmetic that reports overflow. Every product or sum of shapes, sizes, offsets and
// strides that a user, a file or a socket can influence goes through these functions.
#pragma once
#include <cstdint>

#include "cpp/base/error.h"

namespace mxlite {

[[noreturn]] void throw_overflow(const char* operation, int64_t a, int64_t b);

// Returns a * b. Throws a shape error if the result does not fit into 64 bits.
inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) [[unlikely]]
    throw_overflow(" * ", a, b);
  return result;
}

// Returns a + b. Throws a shape error if the result does not fit into 64 bits.
inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) [[unlikely]]
    throw_overflow(" + ", a, b);
  return result;
}

}  // namespace mxlite
