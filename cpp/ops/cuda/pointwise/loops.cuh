// Element-wise kernels: the functors of cpp/ops/pointwise over arrays of any shape, stride and
// dtype. As on the CPU, a kernel is instantiated for its compute type.
#pragma once
#include <cstring>

#pragma nv_diag_suppress 186  // functors compare values of unsigned types with zero

#include "cpp/ops/cpu/pointwise/block_io.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/walk.h"
#include "cpp/ops/pointwise/binary_functors.h"
#include "cpp/ops/pointwise/unary_functors.h"

namespace mxlite::cuda {

using pointwise::Compute;

// Elements per thread and step: 16 bytes of 16-bit floats, or two accesses of 16 bytes of float.
template <class C>
constexpr int kPack = sizeof(C) == 4 ? 8 : 4;

enum class Source : uint8_t { kArray, kOneElement, kScalar };

template <class C>
struct Operand {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  Source source = Source::kArray;
  C scalar = C(0);

  __device__ __forceinline__ C at(int64_t offset) const {
    return source == Source::kScalar ? scalar : load_as<C>(data, dtype, offset);
  }
  // Loads or stores elements i .. i + kPack of an array without gaps.
  __device__ __forceinline__ void pack(int64_t i, C (&out)[kPack<C>]) const {
    if (source == Source::kArray) {
      for_packed_dtype<C>(dtype, [&]<class T>(T) { load_pack<T>(data, i, out); });
      return;
    }
    const C value = at(0);
#pragma unroll
    for (int k = 0; k < kPack<C>; ++k) out[k] = value;
  }
};

template <class C>
struct Target {
  void* data;
  DType dtype;
  __device__ __forceinline__ void pack(int64_t i, const C (&in)[kPack<C>]) const {
    for_packed_dtype<C>(dtype, [&]<class T>(T) { store_pack<T>(data, i, in); });
  }
};

template <class C>
struct UnaryArgs {
  Walk<1> walk;
  Operand<C> x;
  Target<C> y;
  bool packed;
  C p[2];
};

template <class F, class C>
__global__ void unary_loop(const __grid_constant__ UnaryArgs<C> a) {
  constexpr int kWidth = kPack<C>;
  const int64_t n = a.walk.total(), packs = a.packed ? n / kWidth : 0;
  C p[2] = {a.p[0], a.p[1]};
  for (int64_t i = global_index(); i < packs; i += grid_stride()) {
    C v[kWidth];
    a.x.pack(i * kWidth, v);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) v[k] = F::apply(v[k], p);
    a.y.pack(i * kWidth, v);
  }
  for (int64_t i = packs * kWidth + global_index(); i < n; i += grid_stride()) {
    int64_t at[1];
    a.walk.offsets(i, at);
    store_as<C>(a.y.data, a.y.dtype, i, F::apply(a.x.at(at[0]), p));
  }
}

template <class C>
struct BinaryArgs {
  Walk<2> walk;
  Operand<C> a, b;
  Target<C> y;
  bool packed;
};

template <class F, class C>
__global__ void binary_loop(const __grid_constant__ BinaryArgs<C> s) {
  constexpr int kWidth = kPack<C>;
  const int64_t n = s.walk.total(), packs = s.packed ? n / kWidth : 0;
  for (int64_t i = global_index(); i < packs; i += grid_stride()) {
    C a[kWidth], b[kWidth];
    s.a.pack(i * kWidth, a);
    s.b.pack(i * kWidth, b);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) a[k] = F::apply(a[k], b[k]);
    s.y.pack(i * kWidth, a);
  }
  for (int64_t i = packs * kWidth + global_index(); i < n; i += grid_stride()) {
    int64_t at[2];
    s.walk.offsets(i, at);
    store_as<C>(s.y.data, s.y.dtype, i, F::apply(s.a.at(at[0]), s.b.at(at[1])));
  }
}

void dispatch_compute(Compute c, auto&& fn) {
  switch (c) {
    case Compute::kFloat:
      return fn(float{});
    case Compute::kDouble:
      return fn(double{});
    case Compute::kInt32:
      return fn(int32_t{});
    case Compute::kInt64:
      return fn(int64_t{});
    case Compute::kUInt64:
      return fn(uint64_t{});
  }
}

template <class C>
int64_t loop_items(int64_t n, bool packed) {
  return packed ? std::max<int64_t>(n / kPack<C>, kPack<C>) : n;
}

template <class F, class C>
void run_unary(KernelContext& ctx, const TensorRef& x, const TensorRef& y, C p0 = C(0),
               C p1 = C(0)) {
  UnaryArgs<C> a{{}, {x.data, x.dtype}, {y.data, y.dtype}, false, {p0, p1}};
  for (int i = 0; i < x.shape.ndim(); ++i) a.walk.add(x.shape[i], {x.strides[i]});
  a.walk.finish();
  a.packed = a.walk.contiguous() && is_aligned(x.data) && is_aligned(y.data) &&
             moves_in_packs<C>(x.dtype) && moves_in_packs<C>(y.dtype);
  launch_items(ctx, unary_loop<F, C>, loop_items<C>(a.walk.total(), a.packed), a);
}

// Returns whether the operand is read in order, or is a single element.
inline bool is_regular(const Walk<2>& walk, int k, Source* source) {
  if (walk.ndim() == 0) return true;
  if (walk.ndim() > 1) return false;
  if (walk.stride(k, 0) == 0) *source = Source::kOneElement;
  return walk.stride(k, 0) <= 1 && walk.stride(k, 0) >= 0;
}

template <class F, class C>
void launch_binary(KernelContext& ctx, BinaryArgs<C>& s) {
  s.walk.finish();
  s.packed = is_aligned(s.y.data) && moves_in_packs<C>(s.y.dtype);
  int k = 0;
  for (Operand<C>* o : {&s.a, &s.b}) {
    if (o->source != Source::kScalar) {
      Source source = Source::kArray;
      const bool regular = is_regular(s.walk, k, &source);
      if (regular) o->source = source;
      s.packed &= regular && moves_in_packs<C>(o->dtype) &&
                  (source == Source::kOneElement || is_aligned(o->data));
    }
    ++k;
  }
  launch_items(ctx, binary_loop<F, C>, loop_items<C>(s.walk.total(), s.packed), s);
}

// y = F(a, b) with NumPy's broadcasting.
template <class F, class C>
void run_binary_in(KernelContext& ctx, const TensorRef& a, const TensorRef& b, const TensorRef& y) {
  BinaryArgs<C> s{{}, {a.data, a.dtype}, {b.data, b.dtype}, {y.data, y.dtype}, false};
  const Strides a_strides = broadcast_strides(a.shape, a.strides, y.shape);
  const Strides b_strides = broadcast_strides(b.shape, b.strides, y.shape);
  for (int i = 0; i < y.shape.ndim(); ++i) s.walk.add(y.shape[i], {a_strides[i], b_strides[i]});
  launch_binary<F, C>(ctx, s);
}
template <class F>
void run_binary(KernelContext& ctx, const TensorRef& a, const TensorRef& b, const TensorRef& y) {
  dispatch_compute(pointwise::compute_for_arithmetic(a.dtype),
                   [&]<class C>(C) { run_binary_in<F, C>(ctx, a, b, y); });
}
// Accepts only functions of floating types.
template <class F>
void run_floating_binary(KernelContext& ctx, const TensorRef& a, const TensorRef& b,
                         const TensorRef& y) {
  if (pointwise::compute_for_math(a.dtype) == Compute::kFloat)
    run_binary_in<F, float>(ctx, a, b, y);
  else
    run_binary_in<F, double>(ctx, a, b, y);
}

// Returns a scalar as type C, after conversion to the dtype.
template <class C>
C scalar_of(Number value, DType dtype, Compute c) {
  alignas(8) std::byte bytes[8];
  pointwise::load_scalar(value, dtype, c, bytes);
  C result;
  std::memcpy(&result, bytes, sizeof(C));
  return result;
}

// Computes in type c, after conversion of the number to a dtype.
template <class F>
void run_scalar(KernelContext& ctx, const TensorRef& x, Number value, bool scalar_left,
                const TensorRef& y, Compute c, DType scalar_dtype) {
  dispatch_compute(c, [&]<class C>(C) {
    Operand<C> scalar;
    scalar.source = Source::kScalar;
    scalar.scalar = scalar_of<C>(value, scalar_dtype, c);
    const Operand<C> array{x.data, x.dtype};
    BinaryArgs<C> s{
        {}, scalar_left ? scalar : array, scalar_left ? array : scalar, {y.data, y.dtype}, false};
    for (int i = 0; i < y.shape.ndim(); ++i) s.walk.add(y.shape[i], {x.strides[i], x.strides[i]});
    launch_binary<F, C>(ctx, s);
  });
}
template <class F>
void run_scalar(KernelContext& ctx, const TensorRef& x, Number value, bool scalar_left,
                const TensorRef& y) {
  const Compute c = pointwise::compute_for_arithmetic(y.dtype);
  run_scalar<F>(ctx, x, value, scalar_left, y, c, y.dtype);
}

template <class F>
void unary_kernel(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  if constexpr (F::math) {
    if (pointwise::compute_for_math(in[0].dtype) == Compute::kFloat)
      run_unary<F, float>(ctx, in[0], out[0]);
    else
      run_unary<F, double>(ctx, in[0], out[0]);
  } else {
    dispatch_compute(pointwise::compute_for_arithmetic(in[0].dtype),
                     [&]<class C>(C) { run_unary<F, C>(ctx, in[0], out[0]); });
  }
}
template <class F>
void binary_kernel(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  run_binary<F>(ctx, in[0], in[1], out[0]);
}

template <class... F>
void register_unary_kernels(OpRegistry& ops, pointwise::FunctorList<F...>) {
  (ops.cuda_kernel<&unary_kernel<F>>(F::name, kStrided), ...);
}
template <class... F>
void register_binary_kernels(OpRegistry& ops, pointwise::FunctorList<F...>) {
  (ops.cuda_kernel<&binary_kernel<F>>(std::string("broadcast_") + F::name, kStrided), ...);
}

}  // namespace mxlite::cuda
