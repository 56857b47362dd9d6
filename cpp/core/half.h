// float16 and bfloat16 as storage types; arithmetic happens in float. Rounds to nearest even.
#pragma once
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace mxlite {

struct float16 {
  uint16_t bits = 0;
  float16() = default;
  float16(float value) : bits(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)) {}  // NOLINT: converts
  operator float() const { return _cvtsh_ss(bits); }                           // NOLINT: converts
};

struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  bfloat16(float value) {  // NOLINT: converts
    const uint32_t u = std::bit_cast<uint32_t>(value);
    // A NaN whose payload sits in the dropped bits must stay a NaN.
    bits = (u & 0x7fffffff) > 0x7f800000
               ? static_cast<uint16_t>((u >> 16) | 0x40)
               : static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  operator float() const {  // NOLINT: converts
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

}  // namespace mxlite
