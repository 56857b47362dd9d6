// Convolution, linear layer and pooling of quantized data. Products are summed in int32 with
// wrap-around, like the processors' instructions.
#include "cpp/ops/cpu/quantization/convert.h"
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/fully_connected.h"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace quantization {
namespace {

// Sets the range of int32 sums of products, from the ranges at in[first ...].
void set_product_range(float data_top, Inputs in, size_t first, Outputs out) {
  const float data = largest_magnitude(number(in[first]), number(in[first + 1]));
  const float weight = largest_magnitude(number(in[first + 2]), number(in[first + 3]));
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

void convolution(KernelContext&, const ConvolutionParams& p, Inputs in, Outputs out) {
  const SpatialDims data = spatial_dims(in[0].shape, false), to = spatial_dims(out[0].shape, false);
  const SpatialWindow w = p.window();
  const int64_t channels = data.channels / p.num_group, filters = p.num_filter / p.num_group;
  const int64_t weights = channels * w.kernel_size(), plane = to.spatial_size();
  dispatch_quantized(in[0].dtype, [&]<class T>(T) {
    cpu::parallel_for(to.batch * p.num_filter, weights * plane, [&](int64_t i) {
      const int64_t sample = i / p.num_filter, filter = i % p.num_filter;
      int32_t* sums = out[0].as<int32_t>() + i * plane;
      // As in 1.x on the CPU, the bias is used in units of the sums, regardless of its range.
      std::fill_n(sums, plane, p.no_bias ? 0 : int32_t{in[2].as<int8_t>()[filter]});
      const int64_t first = sample * data.channels + filter / filters * channels;
      convolve_plane(in[0].as<T>() + first * data.spatial_size(),
                     in[1].as<int8_t>() + filter * weights, data, to, w, channels, sums);
    });
  });
  set_product_range(largest(DType::kInt8), in, p.no_bias ? 2 : 3, out);
}

void fully_connected(KernelContext&, const FullyConnectedParams& p, Inputs in, Outputs out) {
  const auto [rows, columns] = fully_connected_rows(p, in[0].shape);
  const size_t first = p.no_bias ? 2 : 3;
  float bias_units = 0;  // number of units of the sums per unit of the bias
  if (!p.no_bias) {
    const auto scale = [&](size_t i, DType dtype) {
      return scale_to(full_scale(dtype), largest_magnitude(number(in[i]), number(in[i + 1])));
    };
    const float bias = scale(first + 4, DType::kInt8);
    bias_units = bias > 0 ? scale(first, in[0].dtype) * scale(first + 2, DType::kInt8) / bias : 0;
  }
  dispatch_quantized(in[0].dtype, [&]<class T>(T) {
    cpu::parallel_for(rows * p.num_hidden, columns, [&](int64_t i) {
      const T* row = in[0].as<T>() + i / p.num_hidden * columns;
      const int8_t* weight = in[1].as<int8_t>() + i % p.num_hidden * columns;
      int32_t sum = 0;
      for (int64_t k = 0; k < columns; ++k) sum = wrapping_add(sum, int32_t{row[k]} * weight[k]);
      if (!p.no_bias) {
        const float bias = static_cast<float>(in[2].as<int8_t>()[i % p.num_hidden]) * bias_units;
        sum = wrapping_add(sum, saturate<int32_t>(std::trunc(bias)));
      }
      out[0].as<int32_t>()[i] = sum;
    });
  });
  set_product_range(largest(in[0].dtype), in, first, out);
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
  ops.cpu_kernel<&pooling>("_contrib_quantized_pooling");
});

}  // namespace mxlite
