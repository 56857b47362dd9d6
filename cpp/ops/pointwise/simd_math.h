// Lets loops that call the standard library's functions vectorize. glibc's libmvec has vector
// versions (within 4 ulp), but its headers declare them only under -ffast-math.
#pragma once
#include <cmath>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__CUDACC__)
#if __GLIBC_PREREQ(2, 35)
#define MX_SIMD_UNARY(name)                                                  \
  __attribute__((simd("notinbranch"), const, nothrow)) float name##f(float); \
  __attribute__((simd("notinbranch"), const, nothrow)) double name(double);
#define MX_SIMD_BINARY(name)                                                        \
  __attribute__((simd("notinbranch"), const, nothrow)) float name##f(float, float); \
  __attribute__((simd("notinbranch"), const, nothrow)) double name(double, double);
extern "C" {
MX_SIMD_UNARY(sin)
MX_SIMD_UNARY(cos)
MX_SIMD_UNARY(tan)
MX_SIMD_UNARY(asin)
MX_SIMD_UNARY(acos)
MX_SIMD_UNARY(atan)
MX_SIMD_UNARY(sinh)
MX_SIMD_UNARY(cosh)
MX_SIMD_UNARY(tanh)
MX_SIMD_UNARY(asinh)
MX_SIMD_UNARY(acosh)
MX_SIMD_UNARY(atanh)
MX_SIMD_UNARY(exp)
MX_SIMD_UNARY(expm1)
MX_SIMD_UNARY(log)
MX_SIMD_UNARY(log2)
MX_SIMD_UNARY(log10)
MX_SIMD_UNARY(log1p)
MX_SIMD_UNARY(cbrt)
MX_SIMD_UNARY(erf)
MX_SIMD_BINARY(atan2)
MX_SIMD_BINARY(pow)
MX_SIMD_BINARY(hypot)
}
#undef MX_SIMD_UNARY
#undef MX_SIMD_BINARY
#endif
#endif
