// Element-wise and copying operators on quantized arrays.
#include <cstring>

#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/quantization/convert.h"
#include "cpp/ops/nn/activation.h"
#include "cpp/ops/nn/batch_norm.h"
#include "cpp/ops/nn/embedding.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/concat.h"

namespace mxlite {
namespace quantization {
namespace {

// Sets out[i] = fn(i) in out's dtype.
void fill_any(const TensorRef& out, auto&& fn) {
  if (out.dtype == DType::kInt32)
    fill<int32_t>(out, fn);
  else
    dispatch_quantized(out.dtype, [&]<class T>(T) { fill<T>(out, fn); });
}

void add(KernelContext&, const RangeParams& p, Inputs in, Outputs out) {
  const float left = magnitude(in[2], in[3]), right = magnitude(in[4], in[5]);
  float low = -(left + right), high = left + right, out_scale = scale_to(kInt32Range, high);
  if (p.min_calib_range) {
    low = *p.min_calib_range;
    high = *p.max_calib_range;
    out_scale = scale_to(full_scale(out[0].dtype), largest_magnitude(low, high));
  }
  const float a = out_scale / scale_to(full_scale(in[0].dtype), left);
  const float b = out_scale / scale_to(full_scale(in[1].dtype), right);
  const Reader lhs(in[0]), rhs(in[1]);
  // If inputs differ in type, uint8 numbers are first converted to int8.
  const bool narrow = in[0].dtype != in[1].dtype && out[0].dtype == DType::kInt8;
  const auto term = [&](const TensorRef& t, float v) {
    return narrow && t.dtype == DType::kUInt8 ? static_cast<float>(saturate<int8_t>(v)) : v;
  };
  fill_any(out[0], [&](int64_t i) { return term(in[0], lhs[i] * a) + term(in[1], rhs[i] * b); });
  set_range(out, low, high);
}

void multiply(KernelContext&, const MultiplyParams& p, Inputs in, Outputs out) {
  const float left = magnitude(in[2], in[3]), right = magnitude(in[4], in[5]);
  const Reader lhs(in[0]), rhs(in[1]);
  const float level = left / full_scale(in[0].dtype) * (right / full_scale(in[1].dtype));
  if (p.enable_float_output) {
    float* to = out[0].as<float>();
    for (int64_t i = 0; i < out[0].size(); ++i) to[i] = lhs[i] * rhs[i] * level;
    return;
  }
  if (!p.min_calib_range) {
    const float end = left / largest(in[0].dtype) * (right / largest(in[1].dtype)) * kInt32Range;
    fill_any(out[0], [&](int64_t i) { return lhs[i] * rhs[i]; });
    return set_range(out, -end, end);
  }
  const float end = largest_magnitude(*p.min_calib_range, *p.max_calib_range);
  const float scale = level * scale_to(full_scale(DType::kInt8), end);
  fill_any(out[0], [&](int64_t i) { return lhs[i] * rhs[i] * scale; });
  set_range(out, *p.min_calib_range, *p.max_calib_range);
}

void act(KernelContext&, const ActivationParams&, Inputs in, Outputs out) {
  dispatch_quantized(in[0].dtype, [&]<class T>(T) {
    const T* from = in[0].as<T>();
    T* to = out[0].as<T>();
    for (int64_t i = 0; i < in[0].size(); ++i) to[i] = std::max(from[i], T(0));
  });
  set_range(out, number(in[1]), number(in[2]));
}

void flatten(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  std::copy_n(in[0].as<std::byte>(), in[0].bytes(), out[0].as<std::byte>());
  set_range(out, number(in[1]), number(in[2]));
}

void concat(KernelContext&, const ConcatParams& p, Inputs in, Outputs out) {
  const size_t count = in.size() / 3;
  float low = number(in[count]), high = number(in[count + 1]);
  for (size_t i = 0; i < count; ++i) {
    low = std::min(low, number(in[count + 2 * i]));
    high = std::max(high, number(in[count + 2 * i + 1]));
  }
  const int axis = p.dim < 0 ? p.dim + out[0].shape.ndim() : p.dim;
  const int64_t outer = out[0].shape.product(0, axis);
  const int64_t row = out[0].shape.product(axis, out[0].shape.ndim());
  const float out_scale = scale_to(full_scale(out[0].dtype), largest_magnitude(low, high));
  int64_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t part = in[i].shape.product(axis, in[i].shape.ndim());
    const float range = magnitude(in[count + 2 * i], in[count + 2 * i + 1]);
    const float scale = range / full_scale(in[i].dtype) * out_scale;
    const Reader from(in[i]);
    dispatch_quantized(out[0].dtype, [&]<class T>(T) {
      T* to = out[0].as<T>();
      cpu::parallel_for(outer, part, [&](int64_t o) {
        for (int64_t k = 0; k < part; ++k)
          to[o * row + at + k] = saturate<T>(from[o * part + k] * scale);
      });
    });
    at += part;
  }
  set_range(out, low, high);
}

void embedding(KernelContext& ctx, const EmbeddingParams& p, Inputs in, Outputs out) {
  const int64_t* rows = cpu::index_values(ctx, in[0]);
  const auto* table = in[1].as<uint8_t>();
  auto* to = out[0].as<uint8_t>();
  for (int64_t i = 0; i < in[0].size(); ++i) {
    const int64_t row = std::clamp<int64_t>(rows[i], 0, p.input_dim - 1);
    std::memcpy(to + i * p.output_dim, table + row * p.output_dim,
                static_cast<size_t>(p.output_dim));
  }
  set_range(out, number(in[2]), number(in[3]));
}

void batch_norm(KernelContext&, const BatchNormParams& p, Inputs in, Outputs out) {
  const ChannelBlocks b = channel_blocks(in[0].shape, p.axis);
  const float top = full_scale(DType::kInt8);
  const float level = magnitude(in[5], in[6]) / top;
  const float scale = scale_to(top, largest_magnitude(*p.min_calib_range, *p.max_calib_range));
  const Reader from(in[0]);
  // Converts uint8 numbers to int8 first.
  const bool narrow = in[0].dtype == DType::kUInt8;
  const float step = full_scale(DType::kInt8) / full_scale(DType::kUInt8);
  int8_t* to = out[0].as<int8_t>();
  const float *gamma = in[1].as<float>(), *beta = in[2].as<float>();
  const float *mean = in[3].as<float>(), *var = in[4].as<float>();
  cpu::parallel_for(b.outer * b.channels, 4 * b.inner, [&](int64_t row) {
    const int64_t c = row % b.channels;
    const float slope =
        (p.fix_gamma ? 1.0f : gamma[c]) / std::sqrt(var[c] + static_cast<float>(p.eps));
    const float factor = level * slope * scale, shift = (beta[c] - mean[c] * slope) * scale;
    for (int64_t i = row * b.inner; i < (row + 1) * b.inner; ++i) {
      const float x = narrow ? std::nearbyint(from[i] * step) : from[i];
      to[i] = saturate<int8_t>(x * factor + shift);
    }
  });
  set_range(out, *p.min_calib_range, *p.max_calib_range);
}

}  // namespace
}  // namespace quantization

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace quantization;  // NOLINT: this folder's own names
  ops.cpu_kernel<&add>("_contrib_quantized_elemwise_add");
  ops.cpu_kernel<&multiply>("_contrib_quantized_elemwise_mul");
  ops.cpu_kernel<&act>("_contrib_quantized_act");
  ops.cpu_kernel<&flatten>("_contrib_quantized_flatten");
  ops.cpu_kernel<&concat>("_contrib_quantized_concat");
  ops.cpu_kernel<&embedding>("_contrib_quantized_embedding");
  ops.cpu_kernel<&batch_norm>("_contrib_quantized_batch_norm");
});

}  // namespace mxlite
