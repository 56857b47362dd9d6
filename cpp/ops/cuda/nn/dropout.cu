#include <initializer_list>

#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/random.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/walk.h"
#include "cpp/ops/nn/dropout.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

constexpr int kGroup = 8;  // elements of a thread: two results of philox

// Loads or stores elements i to i + kGroup of n; in `packs`, the array begins at a multiple of 16
// bytes.
template <class T, bool packs, class C>
__device__ __forceinline__ void load_group(const T* from, int64_t i, int64_t n, C (&v)[kGroup]) {
  if (packs && i + kGroup <= n) return load_pack<T>(from, i, v);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = i + k < n ? convert<C>(from[i + k]) : C(0);
}
template <class T, bool packs, class C>
__device__ __forceinline__ void store_group(T* to, int64_t i, int64_t n, const C (&v)[kGroup]) {
  if (packs && i + kGroup <= n) return store_pack<T>(to, i, v);
#pragma unroll
  for (int k = 0; k < kGroup; ++k)
    if (i + k < n) to[i + k] = convert<T>(v[k]);
}

template <bool packs>
__device__ __forceinline__ void draw_group(RandomState state, float p, int64_t i, int64_t n,
                                           uint8_t* mask, uint8_t (&keep)[kGroup]) {
#pragma unroll
  for (int quad = 0; quad < kGroup / 4; ++quad) {
    const auto bits = philox(state.seed, state.offset + static_cast<uint64_t>(i / 4 + quad));
#pragma unroll
    for (int k = 0; k < 4; ++k) keep[quad * 4 + k] = to_uniform(bits[k]) >= p;
  }
  store_group<uint8_t, packs>(mask, i, n, keep);
}

// Adds `added`, unless it is null, to the rounded result.
template <class T, bool packs>
__device__ __forceinline__ void keep_group(AccOf<T> scale, const uint8_t (&keep)[kGroup],
                                           const T* x, const T* added, T* y, int64_t i, int64_t n) {
  AccOf<T> v[kGroup], other[kGroup];
  load_group<T, packs>(x, i, n, v);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = keep[k] ? v[k] * scale : AccOf<T>(0);
  if (added) {
    load_group<T, packs>(added, i, n, other);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = convert<AccOf<T>>(convert<T>(v[k])) + other[k];
  }
  store_group<T, packs>(y, i, n, v);
}

__global__ void draw_mask(int64_t n, DeviceRandom random, float p, uint8_t* mask) {
  const RandomState state = random.load();
  for (int64_t i = global_index() * kGroup; i < n; i += grid_stride() * kGroup) {
    uint8_t keep[kGroup];
    draw_group<false>(state, p, i, n, mask, keep);
  }
}

// Draws the mask, which has data's shape, writes it, applies it and adds `added` in one pass.
template <class T, bool packs>
__global__ void drop(int64_t n, DeviceRandom random, float p, AccOf<T> scale, const T* x,
                     const T* added, uint8_t* mask, T* y) {
  const RandomState state = random.load();
  for (int64_t i = global_index() * kGroup; i < n; i += grid_stride() * kGroup) {
    uint8_t keep[kGroup];
    draw_group<packs>(state, p, i, n, mask, keep);
    keep_group<T, packs>(scale, keep, x, added, y, i, n);
  }
}

// Applies a mask of x's shape. All arrays begin at multiples of 16 bytes.
template <class T>
__global__ void apply_packs(int64_t n, const uint8_t* mask, AccOf<T> scale, const T* x, T* y) {
  for (int64_t i = global_index() * kGroup; i < n; i += grid_stride() * kGroup) {
    uint8_t keep[kGroup];
    load_group<uint8_t, true>(mask, i, n, keep);
    keep_group<T, true>(scale, keep, x, nullptr, y, i, n);
  }
}

template <class T>
__global__ void apply_mask(const __grid_constant__ Walk<1> mask_walk, const uint8_t* mask,
                           AccOf<T> scale, const T* x, T* y) {
  const int64_t n = mask_walk.total();
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    int64_t at[1];
    mask_walk.offsets(i, at);
    y[i] = mask[at[0]] ? convert<T>(convert<AccOf<T>>(x[i]) * scale) : convert<T>(0.0f);
  }
}

bool packs_fit(std::initializer_list<const TensorRef*> arrays) {
  for (const TensorRef* a : arrays)
    if (!is_aligned(a->data)) return false;
  return true;
}
int64_t groups_of(int64_t n) { return (n + kGroup - 1) / kGroup; }

void apply(KernelContext& ctx, const DropoutParams& p, const TensorRef& x, const TensorRef& mask,
           const TensorRef& y) {
  Walk<1> walk;
  const Strides strides = broadcast_strides(mask.shape, contiguous_strides(mask.shape), x.shape);
  for (int i = 0; i < x.shape.ndim(); ++i) walk.add(x.shape[i], {strides[i]});
  walk.finish();
  const int64_t n = walk.total();
  dispatch_float_elements("Dropout", x.dtype, [&]<class T>(T) {
    const auto scale = static_cast<AccOf<T>>(p.scale());
    if (mask.shape == x.shape && packs_fit({&x, &mask, &y}))
      launch_items(ctx, apply_packs<T>, groups_of(n), n, mask.as<uint8_t>(), scale, x.as<T>(),
                   y.as<T>());
    else
      launch_items(ctx, apply_mask<T>, n, walk, mask.as<uint8_t>(), scale, x.as<T>(), y.as<T>());
  });
}

// `added`: the addend of data's shape, or null.
void drop_whole(KernelContext& ctx, const DropoutParams& p, const TensorRef& x,
                const TensorRef* added, Outputs out) {
  const int64_t n = x.size();
  const DeviceRandom random = device_random(ctx);
  dispatch_float_elements("Dropout", x.dtype, [&]<class T>(T) {
    const bool packs = packs_fit({&x, added ? added : &x, &out[0], &out[1]});
    launch_items(ctx, packs ? drop<T, true> : drop<T, false>, groups_of(n), n, random, p.p,
                 static_cast<AccOf<T>>(p.scale()), x.as<T>(), added ? added->as<T>() : nullptr,
                 out[1].as<uint8_t>(), out[0].as<T>());
  });
}

void dropout(KernelContext& ctx, const DropoutParams& p, Inputs in, Outputs out) {
  if (!p.is_active(ctx.training)) return copy_bytes(ctx, out[0].data, in[0].data, in[0].bytes());
  if (out[1].shape == in[0].shape) return drop_whole(ctx, p, in[0], nullptr, out);
  const int64_t n = out[1].size();
  launch_items(ctx, draw_mask, groups_of(n), n, device_random(ctx), p.p, out[1].as<uint8_t>());
  apply(ctx, p, in[0], out[1], out[0]);
}

void dropout_add(KernelContext& ctx, const DropoutParams& p, Inputs in, Outputs out) {
  drop_whole(ctx, p, in[0], &in[1], out);
}

void dropout_backward(KernelContext& ctx, const DropoutParams& p, Inputs in, Outputs out) {
  apply(ctx, p, in[0], in[1], out[0]);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::dropout>("Dropout");
  ops.cuda_kernel<&cuda::dropout_add>("_dropout_add");
  ops.cuda_kernel<&cuda::dropout_backward>("_dropout_backward");
});

}  // namespace mxlite::cuda
