// Convolution, linear layer and pooling of quantized data. Products are summed in int32 with
// wrap-around, like the processors' instructions.
#include <numbers>

#include "cpp/ops/cpu/quantization/convert.h"
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/fully_connected.h"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/quantization/fused.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace quantization {
namespace {

// Sets the range of int32 sums of products, from the ranges at in[first ...].
void set_product_range(float data_top, Inputs in, size_t first, Outputs out) {
  const float data = magnitude(in[first], in[first + 1]);
  const float weight = magnitude(in[first + 2], in[first + 3]);
  const float end = data / data_top * (weight / largest(DType::kInt8)) * kInt32Range;
  set_range(out, -end, end);
}

int32_t wrapping_add(int32_t sum, int32_t product) {
  return static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(product));
}

// First and one past the last output position whose input position lies in [0, size).
struct Span {
  int64_t first, last;
  Span(int64_t outputs, int64_t size, int64_t stride, int64_t offset)
      : first(offset < 0 ? std::min((-offset + stride - 1) / stride, outputs) : 0),
        last(size > offset ? std::min((size - offset - 1) / stride + 1, outputs) : 0) {}
};

// Computes one output channel of one sample: every weight multiplies rows of the input.
template <class T>
void convolve_plane(const T* data, const int8_t* weight, const SpatialDims& in,
                    const SpatialDims& out, const SpatialWindow& w, int64_t channels,
                    int32_t* plane) {
  for (int64_t c = 0; c < channels; ++c) {
    const T* image = data + c * in.spatial_size();
    for (int64_t kd = 0; kd < w.kernel[0]; ++kd)
      for (int64_t kh = 0; kh < w.kernel[1]; ++kh)
        for (int64_t kw = 0; kw < w.kernel[2]; ++kw) {
          const int32_t value = *weight++;
          const int64_t offset[3] = {kd * w.dilate[0] - w.pad[0], kh * w.dilate[1] - w.pad[1],
                                     kw * w.dilate[2] - w.pad[2]};
          const Span depth(out.size[0], in.size[0], w.stride[0], offset[0]);
          const Span height(out.size[1], in.size[1], w.stride[1], offset[1]);
          const Span width(out.size[2], in.size[2], w.stride[2], offset[2]);
          for (int64_t d = depth.first; d < depth.last; ++d)
            for (int64_t h = height.first; h < height.last; ++h) {
              const T* row =
                  image +
                  ((d * w.stride[0] + offset[0]) * in.size[1] + h * w.stride[1] + offset[1]) *
                      in.size[2] +
                  offset[2];
              int32_t* sums = plane + (d * out.size[1] + h) * out.size[2];
              for (int64_t i = width.first; i < width.last; ++i)
                sums[i] = wrapping_add(sums[i], value * row[i * w.stride[2]]);
            }
        }
  }
}

// Computes the sums of products of a convolution. Each sum starts with `bias` of its filter, or 0
// if bias is null.
void convolve(const ConvolutionParams& p, const TensorRef& data, const TensorRef& weight,
              const int8_t* bias, const Shape& output, int32_t* result) {
  const SpatialDims from = spatial_dims(data.shape, false), to = spatial_dims(output, false);
  const SpatialWindow w = p.window();
  const int64_t channels = from.channels / p.num_group, filters = p.num_filter / p.num_group;
  const int64_t weights = channels * w.kernel_size(), plane = to.spatial_size();
  dispatch_quantized(data.dtype, [&]<class T>(T) {
    cpu::parallel_for(to.batch * p.num_filter, weights * plane, [&](int64_t i) {
      const int64_t sample = i / p.num_filter, filter = i % p.num_filter;
      int32_t* sums = result + i * plane;
      std::fill_n(sums, plane, bias ? int32_t{bias[filter]} : 0);
      const int64_t first = sample * from.channels + filter / filters * channels;
      convolve_plane(data.as<T>() + first * from.spatial_size(),
                     weight.as<int8_t>() + filter * weights, from, to, w, channels, sums);
    });
  });
}

// Computes dot products of rows of data and weight and sets result[i] = end(i, sum).
void multiply_rows(const FullyConnectedParams& p, const TensorRef& data, const TensorRef& weight,
                   int32_t* result, auto&& end) {
  const auto [rows, columns] = fully_connected_rows(p, data.shape);
  dispatch_quantized(data.dtype, [&]<class T>(T) {
    cpu::parallel_for(rows * p.num_hidden, columns, [&, columns = columns](int64_t i) {
      const T* row = data.as<T>() + i / p.num_hidden * columns;
      const int8_t* factors = weight.as<int8_t>() + i % p.num_hidden * columns;
      int32_t sum = 0;
      for (int64_t k = 0; k < columns; ++k) sum = wrapping_add(sum, int32_t{row[k]} * factors[k]);
      result[i] = end(i, sum);
    });
  });
}

void convolution(KernelContext&, const ConvolutionParams& p, Inputs in, Outputs out) {
  // As in 1.x on the CPU, the bias is used in units of the sums, regardless of its range.
  convolve(p, in[0], in[1], p.no_bias ? nullptr : in[2].as<int8_t>(), out[0].shape,
           out[0].as<int32_t>());
  set_product_range(largest(DType::kInt8), in, p.no_bias ? 2 : 3, out);
}

void fully_connected(KernelContext&, const FullyConnectedParams& p, Inputs in, Outputs out) {
  const size_t first = p.no_bias ? 2 : 3;
  float bias_units = 0;  // number of units of the sums per unit of the bias
  if (!p.no_bias) {
    const auto scale = [&](size_t i, DType dtype) {
      return scale_to(full_scale(dtype), magnitude(in[i], in[i + 1]));
    };
    const float bias = scale(first + 4, DType::kInt8);
    bias_units = bias > 0 ? scale(first, in[0].dtype) * scale(first + 2, DType::kInt8) / bias : 0;
  }
  multiply_rows(p, in[0], in[1], out[0].as<int32_t>(), [&](int64_t i, int32_t sum) {
    if (p.no_bias) return sum;
    const float bias = static_cast<float>(in[2].as<int8_t>()[i % p.num_hidden]) * bias_units;
    return wrapping_add(sum, saturate<int32_t>(std::trunc(bias)));
  });
  set_product_range(largest(in[0].dtype), in, first, out);
}

// Finishes a fused layer: scales the sums, adds bias and `sum`, applies the activation, and stores
// the result. Each run of `plane` elements belongs to one of `channels` channels.
template <class P>
void finish(const P& p, const int32_t* sums, int64_t channels, int64_t plane, Inputs in,
            Outputs out) {
  const FusedInputs at = fused_inputs(p);
  const float unit = magnitude(in[at.low()], in[at.high()]) / full_scale(in[0].dtype);
  const auto* scale = in[at.scale].as<float>();
  const auto* bias = at.bias ? in[at.bias].as<float>() : nullptr;
  const auto value = [&](int64_t i) {
    const int64_t c = i / plane % channels;
    const float v = static_cast<float>(sums[i]) * (unit * scale[c]);
    return bias ? v + bias[c] : v;
  };
  const float most = p.act_max.value_or(std::numeric_limits<float>::infinity());
  const auto activate = [&](float v) {
    if (!p.with_act) return v;
    if (p.act_type == FusedActivation::kGelu)
      return 0.5f * v * (1 + std::erf(v * (1 / std::numbers::sqrt2_v<float>)));
    return v < 0 ? 0.0f : v > most ? most : v;
  };
  if (!p.is_quantized()) {
    const auto* sum = at.sum ? in[at.sum].as<float>() : nullptr;
    auto* to = out[0].as<float>();
    cpu::parallel_ranges(out[0].size(), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) to[i] = activate(sum ? value(i) + sum[i] : value(i));
    });
    return;
  }
  const float sum_unit = at.sum ? p.sum_unit(in[at.sum].dtype) : 0;
  const Reader sum(in[at.sum]);
  const float units = p.output_unit() > 0 ? 1 / p.output_unit() : 0;
  dispatch_quantized(out[0].dtype, [&]<class T>(T) {
    fill<T>(out[0], [&](int64_t i) {
      return activate(at.sum ? value(i) + sum[i] * sum_unit : value(i)) * units;
    });
  });
  set_range(out, *p.min_calib_range, *p.max_calib_range);
}

void fused_convolution(KernelContext& ctx, const FusedConvolutionParams& p, Inputs in,
                       Outputs out) {
  const SpatialDims to = spatial_dims(out[0].shape, false);
  auto* sums =
      static_cast<int32_t*>(ctx.scratch(static_cast<size_t>(out[0].size()) * sizeof(int32_t)));
  convolve(p, in[0], in[1], nullptr, out[0].shape, sums);
  finish(p, sums, to.channels, to.spatial_size(), in, out);
}

void fused_fully_connected(KernelContext& ctx, const FusedFullyConnectedParams& p, Inputs in,
                           Outputs out) {
  auto* sums =
      static_cast<int32_t*>(ctx.scratch(static_cast<size_t>(out[0].size()) * sizeof(int32_t)));
  multiply_rows(p, in[0], in[1], sums, [](int64_t, int32_t sum) { return sum; });
  finish(p, sums, p.num_hidden, 1, in, out);
}

template <class T>
void pool(const PoolingParams& p, const TensorRef& in, const TensorRef& out) {
  const bool last = p.channels_last();
  const SpatialDims from = spatial_dims(in.shape, last), to = spatial_dims(out.shape, last);
  const SpatialWindow w = p.window(in.shape);
  const bool average = p.pool_type == PoolType::kAvg;
  const int64_t step = last ? from.channels : 1;  // distance between neighbors along the last axis
  cpu::parallel_for(to.batch * to.channels, to.spatial_size() * w.kernel_size(), [&](int64_t i) {
    const int64_t n = i / to.channels, c = i % to.channels;
    const auto base = [&](const SpatialDims& dims) {
      return last ? n * dims.spatial_size() * dims.channels + c : i * dims.spatial_size();
    };
    const T* image = in.as<T>() + base(from);
    T* result = out.as<T>() + base(to);
    for (int64_t o = 0; o < to.spatial_size(); ++o) {
      const int64_t at[3] = {o / (to.size[1] * to.size[2]), o / to.size[2] % to.size[1],
                             o % to.size[2]};
      int64_t begin[3], end[3];
      for (int a = 0; a < 3; ++a) {
        const int64_t start = at[a] * w.stride[a] - w.pad[a];
        begin[a] = std::max<int64_t>(start, 0);
        end[a] = std::min(start + w.kernel[a], from.size[a]);
      }
      int64_t sum = 0, count = 0;
      T most = std::numeric_limits<T>::min();
      for (int64_t d = begin[0]; d < end[0]; ++d)
        for (int64_t h = begin[1]; h < end[1]; ++h)
          for (int64_t x = begin[2]; x < end[2]; ++x, ++count) {
            const T v = image[((d * from.size[1] + h) * from.size[2] + x) * step];
            sum += v;
            most = std::max(most, v);
          }
      if (average) {
        const int64_t divisor = p.includes_pad() ? w.kernel_size() : std::max<int64_t>(count, 1);
        most = saturate<T>(static_cast<float>(sum) / static_cast<float>(divisor));
      }
      result[o * step] = most;
    }
  });
}

void pooling(KernelContext&, const PoolingParams& p, Inputs in, Outputs out) {
  dispatch_quantized(in[0].dtype, [&]<class T>(T) { pool<T>(p, in[0], out[0]); });
  set_range(out, number(in[1]), number(in[2]));
}

}  // namespace
}  // namespace quantization

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace quantization;  // NOLINT: this folder's own names
  ops.cpu_kernel<&convolution>("_contrib_quantized_conv", kWorkerOnly);
  ops.cpu_kernel<&fully_connected>("_contrib_quantized_fully_connected", kWorkerOnly);
  ops.cpu_kernel<&fused_convolution>("_sg_mkldnn_conv", kWorkerOnly);
  ops.cpu_kernel<&fused_fully_connected>("_sg_mkldnn_fully_connected", kWorkerOnly);
  ops.cpu_kernel<&pooling>("_contrib_quantized_pooling");
});

}  // namespace mxlite
