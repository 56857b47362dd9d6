// Registers of floats for kernels of convolutions and BatchNorm. A kernel's source is included once
// per instruction set, by a file that defines MX_WIDE: 1 for AVX-512 (set its target before this
// header), 0 for AVX2. Everything has internal linkage, so that the linker does not replace code
// for one instruction set by code for the other.
#pragma once
#include <immintrin.h>

#include <cstdint>

#ifndef MX_WIDE
#error "define MX_WIDE: 1 with 32 registers of 64 bytes, 0 with 16 of 32 bytes"
#endif

namespace mxlite::cpu {
namespace {

// Loops over registers must be unrolled early. Otherwise the compiler keeps the registers in
// memory.
#define MX_UNROLL _Pragma("GCC unroll 36")

#if MX_WIDE
constexpr int64_t kLane = 16;  // floats per register
using Vec = __m512;
inline Vec set(float v) { return _mm512_set1_ps(v); }
inline Vec zero() { return _mm512_setzero_ps(); }
inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec madd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec nmadd(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }
// Keeps NaN. The mask avoids a warning that GCC gives for the intrinsic without a mask.
inline Vec relu(Vec v) { return _mm512_maskz_max_ps(0xffff, zero(), v); }
#else
constexpr int64_t kLane = 8;
using Vec = __m256;
inline Vec set(float v) { return _mm256_set1_ps(v); }
inline Vec zero() { return _mm256_setzero_ps(); }
inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
inline Vec madd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec nmadd(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }
inline Vec relu(Vec v) { return _mm256_max_ps(zero(), v); }  // keeps NaN
#endif
inline Vec madd(Vec a, float b, Vec c) { return madd(a, set(b), c); }

}  // namespace
}  // namespace mxlite::cpu
