// Instantiates functors as loops.
#pragma once
#include "cpp/ops/cpu/pointwise/loops.h"
#include "cpp/ops/op_schema.h"
#include "cpp/ops/pointwise/binary_functors.h"

namespace mxlite::pointwise {

// `omp simd`: input and output may be the same memory, element by element, which the compiler's own
// alias check would send to a scalar loop.
template <class F, class C>
void unary_loop(const void* x, void* y, int64_t n, const void* args) {
  const C* in = static_cast<const C*>(x);
  C* out = static_cast<C*>(y);
  const C* p = static_cast<const C*>(args);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = F::apply(in[i], p);
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

template <class F>
inline constexpr BinaryTable kBinary = {{&binary_loop<F, float>, &binary_loop<F, double>,
                                         &binary_loop<F, int32_t>, &binary_loop<F, int64_t>,
                                         &binary_loop<F, uint64_t>}};

template <class F>
Compute compute_for(DType dtype) {
  return F::math ? compute_for_math(dtype) : compute_for_arithmetic(dtype);
}

constexpr Kernel kStrided = {.strided_inputs = true};

template <class F>
void unary_kernel(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  run_unary(kUnary<F>, compute_for<F>(in[0].dtype), in[0], out[0]);
}
template <class F>
void binary_kernel(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  run_binary(kBinary<F>, compute_for_arithmetic(in[0].dtype), in[0], in[1], out[0]);
}

template <class... F>
void register_unary_kernels(OpRegistry& ops, FunctorList<F...>) {
  (ops.kernel<&unary_kernel<F>>(F::name, DeviceType::kCPU, kStrided), ...);
}

}  // namespace mxlite::pointwise
