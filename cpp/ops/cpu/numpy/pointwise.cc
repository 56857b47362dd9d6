// Element-wise operators that only numpy mode has.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpp/ops/cpu/pointwise/binary.h"
#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/numpy/comparison.h"
#include "cpp/ops/pointwise/numpy_functors.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace pointwise {

// Vectorized in double, in which quotients of int32 are exact enough to be rounded down.
template <class F>
void divide_integers(const void* left, const void* right, void* result, int64_t n, Form form,
                     F finish) {
  const auto* const a = static_cast<const int32_t*>(left);
  const auto* const b = static_cast<const int32_t*>(right);
  auto* const out = static_cast<int32_t*>(result);
  const int64_t step_a = form != Form::kScalarLeft, step_b = form != Form::kScalarRight;
  const auto run = [&](auto first_step, auto second_step) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const int32_t x = a[i * first_step], y = b[i * second_step];
      const double quotient = std::floor(static_cast<double>(x) / (y == 0 ? 1 : y));
      // Only the quotient of the smallest number and -1 is too large: it wraps, as in NumPy.
      const bool fits = quotient <= std::numeric_limits<int32_t>::max();
      const int32_t whole =
          fits ? static_cast<int32_t>(quotient) : std::numeric_limits<int32_t>::min();
      out[i] = y == 0 ? 0 : finish(x, y, whole);
    }
  };
  using Still = std::integral_constant<int64_t, 0>;
  using Next = std::integral_constant<int64_t, 1>;
  if (!step_a) return run(Still{}, Next{});
  if (!step_b) return run(Next{}, Still{});
  run(Next{}, Next{});
}

template <>
inline void binary_loop<FloorDivide, int32_t>(const void* left, const void* right, void* result,
                                              int64_t n, Form form) {
  divide_integers(left, right, result, n, form,
                  [](int32_t, int32_t, int32_t quotient) { return quotient; });
}
template <>
inline void binary_loop<NumpyMod, int32_t>(const void* left, const void* right, void* result,
                                           int64_t n, Form form) {
  divide_integers(left, right, result, n, form, [](int32_t x, int32_t y, int32_t quotient) {
    return static_cast<int32_t>(static_cast<uint32_t>(x) -
                                static_cast<uint32_t>(quotient) * static_cast<uint32_t>(y));
  });
}

// Differs from Mod only for divisors that are 0, which are rare.
template <>
inline void binary_loop<NumpyMod, float>(const void* left, const void* right, void* result,
                                         int64_t n, Form form) {
  constexpr int64_t kPart = 512;
  const auto* const a = static_cast<const float*>(left);
  const auto* const b = static_cast<const float*>(right);
  auto* const out = static_cast<float*>(result);
  const int64_t step_a = form != Form::kScalarLeft, step_b = form != Form::kScalarRight;
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t count = std::min(kPart, n - begin);
    const float *const x = a + begin * step_a, *const y = b + begin * step_b;
    int zeros = 0;
    for (int64_t i = 0; i < (step_b ? count : 1); ++i) zeros |= y[i] == 0.0f;
    if (zeros == 0)
      binary_loop<Mod, float>(x, y, out + begin, count, form);
    else
      for (int64_t i = 0; i < count; ++i)
        out[begin + i] = NumpyMod::apply(x[i * step_a], y[i * step_b]);
  }
}

namespace {

// Returns whether arrays of one shape can be read as adjacent bytes.
bool are_bytes(Inputs in, const TensorRef& out) {
  return dtype_size(out.dtype) == 1 && std::all_of(in.begin(), in.end(), [&](const TensorRef& t) {
           return t.dtype == out.dtype && t.contiguous && t.shape == out.shape;
         });
}

template <class F>
constexpr bool kBitwise =
    std::is_same_v<F, BitwiseAnd> || std::is_same_v<F, BitwiseOr> || std::is_same_v<F, BitwiseXor>;

// Calls fn(first, count) for parts of the bytes of an array.
void for_bytes(const TensorRef& out, auto&& fn) {
  parallel_ranges(out.size(), [&](int64_t first, int64_t last) { fn(first, last - first); });
}

void negate(const uint8_t* from, uint8_t* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] == 0;
}

template <class F>
void combine(const uint8_t* a, const uint8_t* b, uint8_t* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = F::apply(a[i], b[i]);
}

template <class F>
void numpy_binary(KernelContext& ctx, const NoParams& p, Inputs in, Outputs out) {
  if constexpr (kBitwise<F>)
    if (are_bytes(in, out[0]))
      return for_bytes(out[0], [&](int64_t first, int64_t n) {
        combine<F>(in[0].as<uint8_t>() + first, in[1].as<uint8_t>() + first,
                   out[0].as<uint8_t>() + first, n);
      });
  if constexpr (F::floating)
    floating_binary_kernel<F>(ctx, p, in, out);
  else
    binary_kernel<F>(ctx, p, in, out);
}

template <class F>
void comparison(KernelContext&, const ScalarParams& p, Inputs in, Outputs out) {
  const ComparisonTypes types = comparison_types(in[0].dtype, p.scalar);
  run_scalar(kBinary<F>, types.compute, in[0], p.scalar, types.scalar, false, out[0]);
}

void invert(KernelContext& ctx, const NoParams& p, Inputs in, Outputs out) {
  const bool negates = in[0].dtype == DType::kBool;
  if (negates && are_bytes(in, out[0]))
    return for_bytes(out[0], [&](int64_t first, int64_t n) {
      negate(in[0].as<uint8_t>() + first, out[0].as<uint8_t>() + first, n);
    });
  (negates ? unary_kernel<LogicalNot> : unary_kernel<Invert>)(ctx, p, in, out);
}

template <class... F>
void register_binary(OpRegistry& ops, FunctorList<F...>) {
  (ops.cpu_kernel<&numpy_binary<F>>(F::name, kStrided), ...);
}
template <class... F>
void register_comparisons(OpRegistry& ops, FunctorList<F...>) {
  (ops.cpu_kernel<&binary_kernel<F>>(numpy_name(F::name), kStrided), ...);
  (ops.cpu_kernel<&comparison<F>>(numpy_name(F::name) + "_scalar", kStrided), ...);
}
template <class... F>
void register_predicates(OpRegistry& ops, FunctorList<F...>) {
  (ops.cpu_kernel<&unary_kernel<F>>(numpy_name(F::name), kStrided), ...);
}

}  // namespace
}  // namespace pointwise

static const Registration pointwise_registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace pointwise;  // NOLINT: this folder's own names
  register_binary(ops, NumpyBinary{});
  register_comparisons(ops, BinaryLogic{});
  register_predicates(ops, NumpyPredicates{});
  ops.cpu_kernel<&invert>("_npi_bitwise_not", kStrided);
  ops.cpu_kernel<&unary_kernel<RintHalfEven>>("_npi_rint", kStrided);
});

}  // namespace mxlite
