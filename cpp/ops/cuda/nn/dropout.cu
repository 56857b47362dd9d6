#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/random.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/walk.h"
#include "cpp/ops/nn/dropout.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

__global__ void draw_mask(int64_t n, DeviceRandom random, float p, uint8_t* mask) {
  const RandomState state = random.load();
  for (int64_t quad = global_index(); quad * 4 < n; quad += grid_stride()) {
    const auto bits = philox(state.seed, state.offset + static_cast<uint64_t>(quad));
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (quad * 4 + k < n) mask[quad * 4 + k] = to_uniform(bits[k]) >= p;
  }
}

// Draws the mask, which has data's shape, writes it and applies it in one pass.
template <class T>
__global__ void drop(int64_t n, DeviceRandom random, float p, AccOf<T> scale, const T* x,
                     uint8_t* mask, T* y) {
  const RandomState state = random.load();
  for (int64_t quad = global_index(); quad * 4 < n; quad += grid_stride()) {
    const auto bits = philox(state.seed, state.offset + static_cast<uint64_t>(quad));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int64_t i = quad * 4 + k;
      if (i >= n) break;
      const bool keep = to_uniform(bits[k]) >= p;
      mask[i] = keep;
      y[i] = keep ? convert<T>(convert<AccOf<T>>(x[i]) * scale) : convert<T>(0.0f);
    }
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

void apply(KernelContext& ctx, const DropoutParams& p, const TensorRef& x, const TensorRef& mask,
           const TensorRef& y) {
  Walk<1> walk;
  const Strides strides = broadcast_strides(mask.shape, contiguous_strides(mask.shape), x.shape);
  for (int i = 0; i < x.shape.ndim(); ++i) walk.add(x.shape[i], {strides[i]});
  walk.finish();
  dispatch_float_elements("Dropout", x.dtype, [&]<class T>(T) {
    launch_items(ctx, apply_mask<T>, walk.total(), walk, mask.as<uint8_t>(),
                 static_cast<AccOf<T>>(p.scale()), x.as<T>(), y.as<T>());
  });
}

void dropout(KernelContext& ctx, const DropoutParams& p, Inputs in, Outputs out) {
  if (!p.is_active(ctx.training)) return copy_bytes(ctx, out[0].data, in[0].data, in[0].bytes());
  const int64_t n = out[1].size();
  const DeviceRandom random = device_random(ctx);
  if (out[1].shape == in[0].shape) {
    dispatch_float_elements("Dropout", in[0].dtype, [&]<class T>(T) {
      launch_items(ctx, drop<T>, (n + 3) / 4, n, random, p.p, static_cast<AccOf<T>>(p.scale()),
                   in[0].as<T>(), out[1].as<uint8_t>(), out[0].as<T>());
    });
    return;
  }
  launch_items(ctx, draw_mask, (n + 3) / 4, n, random, p.p, out[1].as<uint8_t>());
  apply(ctx, p, in[0], out[1], out[0]);
}

void dropout_backward(KernelContext& ctx, const DropoutParams& p, Inputs in, Outputs out) {
  apply(ctx, p, in[0], in[1], out[0]);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::dropout>("Dropout");
  ops.cuda_kernel<&cuda::dropout_backward>("_dropout_backward");
});

}  // namespace mxlite::cuda
