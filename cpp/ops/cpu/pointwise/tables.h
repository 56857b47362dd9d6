// Instantiates functors as loops.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpp/ops/cpu/pointwise/loops.h"
#include "cpp/ops/cpu/processor.h"
#include "cpp/ops/op_schema.h"
#include "cpp/ops/pointwise/binary_functors.h"
#include "cpp/ops/pointwise/unary_functors.h"

namespace mxlite::pointwise {

// Uses `omp simd`, because input and output may be the same memory, for which the compiler's alias
// check would select a scalar loop. This function is always inlined, so that it uses vectors of its
// caller's width.
template <class F, class C>
[[gnu::always_inline]] inline void apply_to_run(const void* x, void* y, int64_t n,
                                                const void* args) {
  const C* in = static_cast<const C*>(x);
  C* out = static_cast<C*>(y);
  // Copies the arguments, because the compiler must assume that `out` overlaps them.
  C p[F::num_args + 1] = {};
  for (int i = 0; i < F::num_args; ++i) p[i] = static_cast<const C*>(args)[i];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = F::apply(in[i], p);
}

template <class F, class C>
void unary_loop(const void* x, void* y, int64_t n, const void* args) {
  apply_to_run<F, C>(x, y, n, args);
}

// The same with vectors of 64 bytes. Call only if the processor has AVX-512.
template <class F, class C>
[[gnu::target("avx512f,avx512vl,avx512dq,avx512bw,prefer-vector-width=512")]] void wide_unary_loop(
    const void* x, void* y, int64_t n, const void* args) {
  apply_to_run<F, C>(x, y, n, args);
}

template <class F, class C>
void binary_loop(const void* left, const void* right, void* result, int64_t n, Form form) {
  const C* a = static_cast<const C*>(left);
  const C* b = static_cast<const C*>(right);
  C* out = static_cast<C*>(result);
  if (form == Form::kBoth) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = F::apply(a[i], b[i]);
  } else if (form == Form::kScalarLeft) {
    const C value = a[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = F::apply(value, b[i]);
  } else {
    const C value = b[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = F::apply(a[i], value);
  }
}

// Computes in double, in a vectorized loop, if the quotients are small enough for an exact float
// remainder.
template <>
inline void binary_loop<Mod, float>(const void* left, const void* right, void* result, int64_t n,
                                    Form form) {
  constexpr double kMostQuotient = 1 << 28;  // the product with the divisor's 24 bits is then exact
  constexpr double kMostDivisor = std::numeric_limits<float>::max();  // must be finite
  constexpr int64_t kPart = 512;
  const float* a = static_cast<const float*>(left);
  const float* b = static_cast<const float*>(right);
  float* out = static_cast<float*>(result);
  const int64_t step_a = form != Form::kScalarLeft, step_b = form != Form::kScalarRight;
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t end = std::min(n, begin + kPart);
    float done[kPart];
    int exact = 1;
#pragma omp simd reduction(& : exact)
    for (int64_t i = begin; i < end; ++i) {
      const double x = a[i * step_a], y = b[i * step_b], quotient = std::floor(x / y);
      const double rest = x - quotient * y;
      // Corrects the remainder if the quotient was rounded up to a whole number.
      const double mended = (rest < 0) != (y < 0) && rest != 0 ? rest + y : rest;
      exact &= (std::fabs(quotient) < kMostQuotient) & (std::fabs(y) <= kMostDivisor);
      done[i - begin] = static_cast<float>(mended == 0 ? std::copysign(0.0, y) : mended);
    }
    for (int64_t i = begin; i < end; ++i)
      out[i] = exact ? done[i - begin] : Mod::apply(a[i * step_a], b[i * step_b]);
  }
}

// Float gamma functions with vectors of double. Values that do not satisfy `simple` are computed
// one by one.
template <class F, class Simple>
inline void gamma_loop(const void* x, void* y, int64_t n, Simple simple) {
  constexpr int64_t kPart = 512;
  const float* in = static_cast<const float*>(x);
  float* out = static_cast<float*>(y);
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t count = std::min(n - begin, kPart);
    float values[kPart], results[kPart];
    int all = 1;
#pragma omp simd reduction(& : all)
    for (int64_t i = 0; i < count; ++i) {
      const float v = in[begin + i];
      const bool usual = v > 0.0f && v <= std::numeric_limits<float>::max();
      values[i] = v;
      all &= usual;
      results[i] = static_cast<float>(simple(static_cast<double>(usual ? v : 1.0f)));
    }
    std::copy_n(results, count, out + begin);
    if (all) continue;
    for (int64_t i = 0; i < count; ++i)
      if (!(values[i] > 0.0f && values[i] <= std::numeric_limits<float>::max()))
        out[begin + i] = F::apply(values[i], static_cast<const float*>(nullptr));
  }
}
template <>
inline void unary_loop<Gamma, float>(const void* x, void* y, int64_t n, const void* /*args*/) {
  gamma_loop<Gamma>(x, y, n, [](double v) {
    const ShiftedGamma g = shifted_gamma(v);
    return std::exp(g.log_gamma) / g.product;
  });
}
template <>
inline void unary_loop<GammaLn, float>(const void* x, void* y, int64_t n, const void* /*args*/) {
  gamma_loop<GammaLn>(x, y, n, [](double v) {
    const ShiftedGamma g = shifted_gamma(v);
    // For 1 and 2 the result is exactly 0, but the two logarithms differ by a rounding error.
    return v == 1.0 || v == 2.0 ? 0.0 : g.log_gamma - std::log(g.product);
  });
}

template <class F>
constexpr UnaryTable unary_table() {
  if constexpr (F::math)
    return {{&unary_loop<F, float>, &unary_loop<F, double>}};
  else
    return {{&unary_loop<F, float>, &unary_loop<F, double>, &unary_loop<F, int32_t>,
             &unary_loop<F, int64_t>, &unary_loop<F, uint64_t>}};
}
template <class F>
inline constexpr UnaryTable kUnary = unary_table<F>();

// Arithmetic takes as long as reading its operands, so only mathematical functions have wide loops.
// Those of the gamma functions compute in double.
template <class F>
constexpr bool kHasWideLoops =
    F::math && !std::is_same_v<F, Gamma> && !std::is_same_v<F, GammaLn> &&
    !std::is_same_v<F, Digamma> && !std::is_same_v<F, Trigamma>;
template <class F>
inline constexpr UnaryTable kWideUnary = {
    {&wide_unary_loop<F, float>, &wide_unary_loop<F, double>}};

template <class F>
const UnaryTable& unary_loops() {
  if constexpr (kHasWideLoops<F>)
    if (cpu::has_avx512()) return kWideUnary<F>;
  return kUnary<F>;
}

template <class F>
inline constexpr BinaryTable kBinary = {{&binary_loop<F, float>, &binary_loop<F, double>,
                                         &binary_loop<F, int32_t>, &binary_loop<F, int64_t>,
                                         &binary_loop<F, uint64_t>}};

template <class F>
Compute compute_for(DType dtype) {
  return F::math ? compute_for_math(dtype) : compute_for_arithmetic(dtype);
}

template <class F>
void unary_kernel(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  run_unary(unary_loops<F>(), compute_for<F>(in[0].dtype), in[0], out[0]);
}
template <class F>
void binary_kernel(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  run_binary(kBinary<F>, compute_for_arithmetic(in[0].dtype), in[0], in[1], out[0]);
}

template <class... F>
void register_unary_kernels(OpRegistry& ops, FunctorList<F...>) {
  (ops.cpu_kernel<&unary_kernel<F>>(F::name, kStrided), ...);
}

}  // namespace mxlite::pointwise
