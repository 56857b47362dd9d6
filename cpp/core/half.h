// float16 and bfloat16 as storage types. Arithmetic uses float. Conversion to these types rounds to
// nearest even.
#pragma once
#include <bit>
#include <cstdint>

#include "cpp/base/host_device.h"

namespace mxlite {

struct float16 {
  uint16_t bits = 0;
  float16() = default;
  MX_HOST_DEVICE float16(float value) {  // NOLINT: converts
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    // Uses F16C's builtins, because otherwise all files would read the 60,000 lines of
    // <immintrin.h>.
    const __attribute__((vector_size(16))) float from = {value};
    bits = static_cast<uint16_t>(__builtin_ia32_vcvtps2ph(from, 0)[0]);  // 0: nearest even
#endif
  }
  MX_HOST_DEVICE operator float() const {  // NOLINT: converts
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const __attribute__((vector_size(16))) short from = {static_cast<short>(bits)};
    return __builtin_ia32_vcvtph2ps(from)[0];
#endif
  }
};

struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  MX_HOST_DEVICE bfloat16(float value) {  // NOLINT: converts
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));  // NaN stays NaN
#else
#ifdef __CUDA_ARCH__
    const uint32_t u = __float_as_uint(value);
#else
    const uint32_t u = std::bit_cast<uint32_t>(value);
#endif
    // A NaN must remain a NaN even if only dropped bits of its payload are set.
    bits = (u & 0x7fffffff) > 0x7f800000
               ? static_cast<uint16_t>((u >> 16) | 0x40)
               : static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
  }
  MX_HOST_DEVICE operator float() const {  // NOLINT: converts
#ifdef __CUDA_ARCH__
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
#else
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
#endif
  }
};

}  // namespace mxlite
