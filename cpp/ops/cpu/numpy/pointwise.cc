// Element-wise operators that only numpy mode has.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cpp/ops/cpu/pointwise/binary.h"
#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/numpy/comparison.h"
#include "cpp/ops/pointwise/numpy_functors.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace pointwise {

// Divides in double, in a vectorized loop. Quotients of int32 are exact enough in double to be
// rounded down.
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
      // The only quotient that is too large, of the smallest number and -1, wraps as in NumPy.
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

// Divides by a number from 2 to 2^31 - 1 with the upper half of a product: for x < 2^31,
// x / divisor = x * multiplier / 2^(32 + shift) if the multiplier is rounded up.
void divide_by_number(const int32_t* a, int32_t divisor, int32_t* out, int64_t n) {
  const int shift = std::bit_width(static_cast<uint32_t>(divisor - 1)) - 1;
  const auto multiplier =
      static_cast<uint32_t>(((uint64_t{1} << (32 + shift)) + static_cast<uint32_t>(divisor) - 1) /
                            static_cast<uint32_t>(divisor));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const int32_t sign = a[i] >> 31;  // all bits of a negative x, whose quotient is ~(~x / divisor)
    const auto x = static_cast<uint32_t>(a[i] ^ sign);
    const auto upper = static_cast<uint32_t>((uint64_t{x} * multiplier) >> 32);
    out[i] = static_cast<int32_t>(upper >> shift) ^ sign;
  }
}

template <>
inline void binary_loop<FloorDivide, int32_t>(const void* left, const void* right, void* result,
                                              int64_t n, Form form) {
  if (const int32_t divisor = *static_cast<const int32_t*>(right);
      form == Form::kScalarRight && divisor > 1)
    return divide_by_number(static_cast<const int32_t*>(left), divisor,
                            static_cast<int32_t*>(result), n);
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

// Differs from the loop of Mod only for divisors that are 0, which are rare.
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

// Comparisons write bools without a copy of the results as numbers if both operands are contiguous
// and in the type in which they are compared.
template <class F, class C>
void compare_loop(const void* left, const void* right, uint8_t* out, int64_t n, Form form) {
  const C* a = static_cast<const C*>(left);
  const C* b = static_cast<const C*>(right);
  if (form == Form::kBoth) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = F::apply(a[i], b[i]) != C(0);
  } else {
    const C value = b[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = F::apply(a[i], value) != C(0);
  }
}
template <class F, class C>
void predicate_loop(const void* from, uint8_t* out, int64_t n) {
  const C* x = static_cast<const C*>(from);
  const C* const no_args = nullptr;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = F::apply(x[i], no_args) != C(0);
}

// Calls fn(T{}) if the array is stored in a compute type T; otherwise returns false.
bool with_stored_type(const TensorRef& x, const TensorRef& out, auto&& fn) {
  if (!x.contiguous || x.shape != out.shape) return false;
  switch (x.dtype) {
    case DType::kFloat32:
      return fn(float{}), true;
    case DType::kFloat64:
      return fn(double{}), true;
    case DType::kInt32:
      return fn(int32_t{}), true;
    case DType::kInt64:
      return fn(int64_t{}), true;
    default:
      return false;
  }
}

template <class F>
void compare(KernelContext& ctx, const NoParams& p, Inputs in, Outputs out) {
  const bool alike = in[1].contiguous && in[1].shape == out[0].shape && in[1].dtype == in[0].dtype;
  if (alike && with_stored_type(in[0], out[0], [&]<class C>(C) {
        for_bytes(out[0], [&](int64_t first, int64_t n) {
          compare_loop<F, C>(in[0].as<C>() + first, in[1].as<C>() + first,
                             out[0].as<uint8_t>() + first, n, Form::kBoth);
        });
      }))
    return;
  binary_kernel<F>(ctx, p, in, out);
}

template <class F>
void predicate(KernelContext& ctx, const NoParams& p, Inputs in, Outputs out) {
  if (with_stored_type(in[0], out[0], [&]<class C>(C) {
        for_bytes(out[0], [&](int64_t first, int64_t n) {
          predicate_loop<F, C>(in[0].as<C>() + first, out[0].as<uint8_t>() + first, n);
        });
      }))
    return;
  unary_kernel<F>(ctx, p, in, out);
}

template <class F>
void comparison(KernelContext&, const ScalarParams& p, Inputs in, Outputs out) {
  const ComparisonTypes types = comparison_types(in[0].dtype, p.scalar);
  alignas(8) std::byte value[8];
  load_scalar(p.scalar, types.scalar, types.compute, value);
  if (stored_as(in[0].dtype, types.compute) && with_stored_type(in[0], out[0], [&]<class C>(C) {
        for_bytes(out[0], [&](int64_t first, int64_t n) {
          compare_loop<F, C>(in[0].as<C>() + first, value, out[0].as<uint8_t>() + first, n,
                             Form::kScalarRight);
        });
      }))
    return;
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
  (ops.cpu_kernel<&compare<F>>(numpy_name(F::name), kStrided), ...);
  (ops.cpu_kernel<&comparison<F>>(numpy_name(F::name) + "_scalar", kStrided), ...);
}
template <class... F>
void register_predicates(OpRegistry& ops, FunctorList<F...>) {
  (ops.cpu_kernel<&predicate<F>>(numpy_name(F::name), kStrided), ...);
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
