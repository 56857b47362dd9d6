// Element-wise and copying operators on quantized arrays.
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/quantization/convert.cuh"
#include "cpp/ops/nn/activation.h"
#include "cpp/ops/nn/batch_norm.h"
#include "cpp/ops/nn/embedding.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/concat.h"

namespace mxlite::cuda {
namespace {

using namespace quantization;  // NOLINT: this file uses its parameters and scales

struct Pair {
  Numbers lhs, rhs;
  Range left, right;
  float left_top, right_top;
};
Pair pair_of(Inputs in) {
  return {Numbers(in[0]),          Numbers(in[1]),          Range::of(in[2], in[3]),
          Range::of(in[4], in[5]), full_scale(in[0].dtype), full_scale(in[1].dtype)};
}

// `known`: the result's range is given. `narrow`: inputs differ in type, so uint8 numbers are first
// converted to int8.
__global__ void add_numbers(int64_t n, Pair p, Range given, bool known, float out_top, bool narrow,
                            Numbers to, RangeOut out) {
  const float left = p.left.magnitude(), right = p.right.magnitude();
  float low = -(left + right), high = left + right, out_scale = scale_to(kInt32Range, high);
  if (known) {
    low = given.low();
    high = given.high();
    out_scale = scale_to(out_top, given.magnitude());
  }
  out.set(low, high);
  const float a = out_scale / scale_to(p.left_top, left);
  const float b = out_scale / scale_to(p.right_top, right);
  const auto term = [&](const Numbers& numbers, float v) {
    return narrow && numbers.dtype == DType::kUInt8 ? static_cast<float>(saturate<int8_t>(v)) : v;
  };
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to.store(i, term(p.lhs, p.lhs.load(i) * a) + term(p.rhs, p.rhs.load(i) * b));
}

Range given_range(const RangeParams& p) {
  return Range::fixed(p.min_calib_range.value_or(0), p.max_calib_range.value_or(0));
}

void add(KernelContext& ctx, const RangeParams& p, Inputs in, Outputs out) {
  const bool narrow = in[0].dtype != in[1].dtype && out[0].dtype == DType::kInt8;
  const int64_t n = out[0].size();
  launch_items(ctx, add_numbers, at_least_one(n), n, pair_of(in), given_range(p),
               p.min_calib_range.has_value(), full_scale(out[0].dtype), narrow, Numbers(out[0]),
               RangeOut(out));
}

__global__ void multiply_to_float(int64_t n, Pair p, float* to) {
  const float level = p.left.magnitude() / p.left_top * (p.right.magnitude() / p.right_top);
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to[i] = p.lhs.load(i) * p.rhs.load(i) * level;
}
// `largest_*` are the largest values of the operands' dtypes, which determine the range of
// products.
__global__ void multiply_numbers(int64_t n, Pair p, Range given, bool known, float out_top,
                                 float largest_left, float largest_right, Numbers to,
                                 RangeOut out) {
  const float left = p.left.magnitude(), right = p.right.magnitude();
  float scale = 1;
  if (known) {
    scale = left / p.left_top * (right / p.right_top) * scale_to(out_top, given.magnitude());
    out.set(given.low(), given.high());
  } else {
    const float end = left / largest_left * (right / largest_right) * kInt32Range;
    out.set(-end, end);
  }
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to.store(i, p.lhs.load(i) * p.rhs.load(i) * scale);
}
void multiply(KernelContext& ctx, const MultiplyParams& p, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  if (p.enable_float_output)
    return launch_items(ctx, multiply_to_float, n, n, pair_of(in), out[0].as<float>());
  launch_items(ctx, multiply_numbers, at_least_one(n), n, pair_of(in), given_range(p),
               p.min_calib_range.has_value(), full_scale(DType::kInt8), largest(in[0].dtype),
               largest(in[1].dtype), Numbers(out[0]), RangeOut(out));
}

__global__ void relu_numbers(int64_t n, Numbers from, Numbers to) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to.store(i, fmaxf(from.load(i), 0.0f));
}
void act(KernelContext& ctx, const ActivationParams&, Inputs in, Outputs out) {
  launch_items(ctx, relu_numbers, in[0].size(), in[0].size(), Numbers(in[0]), Numbers(out[0]));
  give_range(ctx, Range::of(in[1], in[2]), out);
}

void flatten(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  copy_bytes(ctx, out[0].data, in[0].data, in[0].bytes());
  give_range(ctx, Range::of(in[1], in[2]), out);
}

// Widens the range to contain the range of the next part. The first part sets the range.
__global__ void widen_range(Range next, bool first, RangeOut out) {
  const float low = next.low(), high = next.high();
  out.set(first ? low : fminf(*out.low, low), first ? high : fmaxf(*out.high, high));
}
__global__ void join_numbers(int64_t n, int64_t part, int64_t row, int64_t start, Numbers from,
                             Range range, float top, Range whole, float out_top, Numbers to) {
  const float scale = range.magnitude() / top * scale_to(out_top, whole.magnitude());
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to.store(i / part * row + start + i % part, from.load(i) * scale);
}
void concat(KernelContext& ctx, const ConcatParams& p, Inputs in, Outputs out) {
  const size_t count = in.size() / 3;
  const auto range_of = [&](size_t i) {
    return Range::of(in[count + 2 * i], in[count + 2 * i + 1]);
  };
  for (size_t i = 0; i < count; ++i)
    launch(ctx, widen_range, 1, 1, range_of(i), i == 0, RangeOut(out));
  const int axis = p.dim < 0 ? p.dim + out[0].shape.ndim() : p.dim;
  const int64_t row = out[0].shape.product(axis, out[0].shape.ndim());
  int64_t start = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t part = in[i].shape.product(axis, in[i].shape.ndim());
    launch_items(ctx, join_numbers, in[i].size(), in[i].size(), part, row, start, Numbers(in[i]),
                 range_of(i), full_scale(in[i].dtype), Range::of(out[1], out[2]),
                 full_scale(out[0].dtype), Numbers(out[0]));
    start += part;
  }
}

__global__ void take_rows(int64_t n, int64_t width, int64_t rows, const void* indices, DType dtype,
                          const uint8_t* table, uint8_t* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const double v = load_any<double>(indices, dtype, i / width);
    int64_t row = 0;  // also for NaN
    if (v > 0) row = v < static_cast<double>(rows - 1) ? static_cast<int64_t>(v) : rows - 1;
    to[i] = table[row * width + i % width];
  }
}
void embedding(KernelContext& ctx, const EmbeddingParams& p, Inputs in, Outputs out) {
  launch_items(ctx, take_rows, out[0].size(), out[0].size(), p.output_dim, p.input_dim, in[0].data,
               in[0].dtype, in[1].as<uint8_t>(), out[0].as<uint8_t>());
  give_range(ctx, Range::of(in[2], in[3]), out);
}

struct Channels {
  const float *gamma, *beta, *mean, *var;
  float eps;
  bool fix_gamma;
  int64_t channels, inner;
};
__global__ void normalize_numbers(int64_t n, Numbers from, Range range, float top, float scale,
                                  float step, Channels a, int8_t* to) {
  const float level = range.magnitude() / top;
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t c = i / a.inner % a.channels;
    const float slope = (a.fix_gamma ? 1.0f : a.gamma[c]) / sqrtf(a.var[c] + a.eps);
    const float factor = level * slope * scale, shift = (a.beta[c] - a.mean[c] * slope) * scale;
    // Converts uint8 numbers to int8 first.
    const float x = from.dtype == DType::kUInt8 ? rintf(from.load(i) * step) : from.load(i);
    to[i] = saturate<int8_t>(x * factor + shift);
  }
}
void batch_norm(KernelContext& ctx, const BatchNormParams& p, Inputs in, Outputs out) {
  const ChannelBlocks b = channel_blocks(in[0].shape, p.axis);
  const float top = full_scale(DType::kInt8);
  const float end = largest_magnitude(*p.min_calib_range, *p.max_calib_range);
  const Channels a{
      in[1].as<float>(),         in[2].as<float>(), in[3].as<float>(), in[4].as<float>(),
      static_cast<float>(p.eps), p.fix_gamma,       b.channels,        b.inner};
  launch_items(ctx, normalize_numbers, in[0].size(), in[0].size(), Numbers(in[0]),
               Range::of(in[5], in[6]), top, end > 0 ? top / end : 0.0f,
               top / full_scale(DType::kUInt8), a, out[0].as<int8_t>());
  give_range(ctx, Range::fixed(*p.min_calib_range, *p.max_calib_range), out);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::add>("_contrib_quantized_elemwise_add");
  ops.cuda_kernel<&cuda::multiply>("_contrib_quantized_elemwise_mul");
  ops.cuda_kernel<&act>("_contrib_quantized_act");
  ops.cuda_kernel<&cuda::flatten>("_contrib_quantized_flatten");
  ops.cuda_kernel<&cuda::concat>("_contrib_quantized_concat");
  ops.cuda_kernel<&cuda::embedding>("_contrib_quantized_embedding");
  ops.cuda_kernel<&cuda::batch_norm>("_contrib_quantized_batch_norm");
});

}  // namespace mxlite::cuda
