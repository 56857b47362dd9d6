#include "cpp/ops/cuda/image/pixel.cuh"
#include "cpp/ops/cuda/random.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/image/image.h"
#include "cpp/ops/image/resampling.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using resampling::AxisWeights;
using resampling::Interpolation;

ImageView view_of(const TensorRef& t) { return image_view("image", {t.shape, t.dtype}); }

__global__ void planes_of_pixels(int64_t n, int64_t pixels, int64_t channels, const void* from,
                                 DType dtype, float* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t plane = i / pixels, image = plane / channels, channel = plane % channels;
    to[i] = load_pixel(from, dtype, (image * pixels + i % pixels) * channels + channel) / 255.0f;
  }
}
void to_tensor(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const ImageView v = view_of(in[0]);
  const int64_t n = out[0].size();
  launch_items(ctx, planes_of_pixels, n, n, v.height * v.width, v.channels, in[0].data, in[0].dtype,
               out[0].as<float>());
}

// The number of channels that fit into a kernel's arguments.
constexpr int64_t kChannels = 32;
struct Normalization {
  double mean[kChannels], std[kChannels];
  int64_t first, count, channels, pixels;  // channels [first, first + count)
};
template <class C>
__global__ void normalize_planes(int64_t n, const __grid_constant__ Normalization a,
                                 const void* from, void* to, DType dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t plane = i / a.pixels, image = plane / a.count, channel = plane % a.count;
    const int64_t at = (image * a.channels + a.first + channel) * a.pixels + i % a.pixels;
    store_as<C>(to, dtype, at,
                (load_as<C>(from, dtype, at) - static_cast<C>(a.mean[channel])) /
                    static_cast<C>(a.std[channel]));
  }
}
void normalize(KernelContext& ctx, const ImageNormalizeParams& p, Inputs in, Outputs out) {
  const Shape& s = in[0].shape;
  if (s.size() == 0) return;
  const auto value = [](const std::vector<double>& values, int64_t channel) {
    return values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
  };
  Normalization a{};
  a.channels = s[s.ndim() - 3];
  a.pixels = s[s.ndim() - 2] * s[s.ndim() - 1];
  for (a.first = 0; a.first < a.channels; a.first += kChannels) {
    a.count = std::min(kChannels, a.channels - a.first);
    for (int64_t c = 0; c < a.count; ++c) {
      a.mean[c] = value(p.mean, a.first + c);
      a.std[c] = value(p.std, a.first + c);
    }
    const int64_t n = s.size() / a.channels * a.count;
    const auto kernel =
        in[0].dtype == DType::kFloat64 ? normalize_planes<double> : normalize_planes<float>;
    launch_items(ctx, kernel, n, n, a, in[0].data, out[0].data, in[0].dtype);
  }
}

void crop(KernelContext& ctx, const ImageCropParams& p, Inputs in, Outputs out) {
  const ImageView v = view_of(in[0]);
  const size_t bytes = dtype_size(in[0].dtype);
  Walk<2> walk;
  walk.add(v.count, {p.height * p.width * v.channels, v.height * v.width * v.channels});
  walk.add(p.height, {p.width * v.channels, v.width * v.channels});
  walk.add(p.width * v.channels, {1, 1});
  walk.finish();
  strided_copy(ctx, bytes, walk, out[0].data,
               at(in[0].data, (p.y * v.width + p.x) * v.channels, bytes));
}

// `random`: whether to flip is drawn for each image, with the same numbers as on the CPU.
template <class Word>
__global__ void flip_images(int64_t n, ImageView v, bool left_right, bool random,
                            DeviceRandom numbers, const Word* from, Word* to) {
  const RandomState state = numbers.load();
  const int64_t size = v.height * v.width * v.channels;
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t image = i / size, channel = i % v.channels;
    int64_t y = i / (v.width * v.channels) % v.height, x = i / v.channels % v.width;
    const uint64_t counter = state.offset + static_cast<uint64_t>(image) * kRandomPerImage;
    if (!random || !(philox(state.seed, counter)[0] & 1)) {
      if (left_right)
        x = v.width - 1 - x;
      else
        y = v.height - 1 - y;
    }
    to[i] = from[((image * v.height + y) * v.width + x) * v.channels + channel];
  }
}
template <bool kLeftRight, bool kRandom>
void flip(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, flip_images<Word>, n, n, view_of(in[0]), kLeftRight, kRandom,
                 device_random(ctx), in[0].as<Word>(), out[0].as<Word>());
  });
}

// ---- resize -----------------------------------------------------------------------------------

__global__ void make_weights(Interpolation kind, AxisWeights columns, AxisWeights rows) {
  for (int64_t i = global_index(); i < columns.to + rows.to; i += grid_stride())
    if (i < columns.to)
      resampling::fill_weights(kind, i, columns);
    else
      resampling::fill_weights(kind, i - columns.to, rows);
}
// Resamples lines of pixels: (lines, from, channels) becomes (lines, to, channels) of float.
__global__ void resample_columns(int64_t n, AxisWeights w, int64_t channels, const void* in,
                                 DType dtype, int64_t first, float* wide) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t channel = i % channels, x = i / channels % w.to, line = i / channels / w.to;
    float sum = 0;
    for (int64_t t = 0; t < w.taps; ++t) {
      const int64_t at = (line * w.from + w.index[x * w.taps + t]) * channels + channel;
      sum += w.weight[x * w.taps + t] * load_pixel(in, dtype, first + at);
    }
    wide[i] = sum;
  }
}
// Resamples the lines of each image; a line consists of `row` numbers.
__global__ void resample_rows(int64_t n, AxisWeights w, int64_t row, const float* wide, void* out,
                              DType dtype, int64_t first) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t x = i % row, y = i / row % w.to, image = i / row / w.to;
    float sum = 0;
    for (int64_t t = 0; t < w.taps; ++t)
      sum += w.weight[y * w.taps + t] * wide[(image * w.from + w.index[y * w.taps + t]) * row + x];
    store_pixel(out, dtype, first + i, sum);
  }
}

__global__ void resample_fixed(int64_t n, Interpolation kind, bool halves, ImageView from,
                               ImageView to, const uint8_t* in, uint8_t* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t c = i % to.channels, x = i / to.channels % to.width;
    const int64_t y = i / (to.channels * to.width) % to.height;
    const int64_t image = i / (to.channels * to.width * to.height);
    const auto pixel = [&](int64_t row, int64_t column) {
      return in[((image * from.height + row) * from.width + column) * from.channels + c];
    };
    if (halves) {
      const int sum = pixel(2 * y, 2 * x) + pixel(2 * y, 2 * x + 1) + pixel(2 * y + 1, 2 * x) +
                      pixel(2 * y + 1, 2 * x + 1);
      out[i] = static_cast<uint8_t>((sum + 2) >> 2);
      continue;
    }
    const resampling::FixedTap column =
        resampling::column_tap(resampling::place_of(kind, x, from.width, to.width), from.width);
    const resampling::FixedTap row =
        resampling::row_tap(resampling::place_of(kind, y, from.height, to.height), from.height);
    const auto wide = [&](int64_t at) {
      return resampling::along_row(column, pixel(at, column.first), pixel(at, column.second));
    };
    out[i] = resampling::along_column(row, wide(row.first), wide(row.second));
  }
}

void resize(KernelContext& ctx, const ImageResizeParams& p, Inputs in, Outputs out) {
  const ImageView from = view_of(in[0]), to = view_of(out[0]);
  const Interpolation kind = resampling::resolve(static_cast<Interpolation>(p.interp),
                                                 to.width > from.width || to.height > from.height);
  const bool halves = resampling::halves(kind, from.width, from.height, to.width, to.height);
  if (in[0].dtype == DType::kUInt8 && (halves || resampling::is_fixed(kind))) {
    const int64_t n = out[0].size();
    launch_items(ctx, resample_fixed, n, n, kind, halves, from, to, in[0].as<uint8_t>(),
                 out[0].as<uint8_t>());
    return;
  }
  AxisWeights columns{from.width, to.width, resampling::count_taps(kind, from.width, to.width)};
  AxisWeights rows{from.height, to.height, resampling::count_taps(kind, from.height, to.height)};
  const int64_t row = to.width * from.channels, wide = from.height * row;
  constexpr int64_t kMostNumbers = int64_t{1} << 24;  // memory limit of the intermediate image
  const int64_t group = std::clamp<int64_t>(kMostNumbers / wide, 1, from.count);
  ScratchPlan plan;
  const auto add = [&](int64_t count, size_t bytes) {
    return plan.add(static_cast<size_t>(count) * bytes);
  };
  const size_t column_index = add(columns.to * columns.taps, sizeof(int64_t));
  const size_t column_weight = add(columns.to * columns.taps, sizeof(float));
  const size_t row_index = add(rows.to * rows.taps, sizeof(int64_t));
  const size_t row_weight = add(rows.to * rows.taps, sizeof(float));
  const size_t between = add(group * wide, sizeof(float));
  void* const block = ctx.scratch(plan.bytes());
  columns.index = part<int64_t>(block, column_index);
  columns.weight = part<float>(block, column_weight);
  rows.index = part<int64_t>(block, row_index);
  rows.weight = part<float>(block, row_weight);
  launch_items(ctx, make_weights, columns.to + rows.to, kind, columns, rows);
  for (int64_t i = 0; i < from.count; i += group) {
    const int64_t images = std::min(group, from.count - i);
    float* const numbers = part<float>(block, between);
    const int64_t first = images * wide, second = images * to.height * row;
    launch_items(ctx, resample_columns, first, first, columns, from.channels, in[0].data,
                 in[0].dtype, i * from.height * from.width * from.channels, numbers);
    launch_items(ctx, resample_rows, second, second, rows, row, numbers, out[0].data, out[0].dtype,
                 i * to.height * row);
  }
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&to_tensor>("_image_to_tensor");
  ops.cuda_kernel<&cuda::normalize>("_image_normalize");
  ops.cuda_kernel<&crop>("_image_crop");
  ops.cuda_kernel<&cuda::resize>("_image_resize");
  ops.cuda_kernel<&cuda::flip<true, false>>("_image_flip_left_right");
  ops.cuda_kernel<&cuda::flip<false, false>>("_image_flip_top_bottom");
  ops.cuda_kernel<&cuda::flip<true, true>>("_image_random_flip_left_right");
  ops.cuda_kernel<&cuda::flip<false, true>>("_image_random_flip_top_bottom");
});

}  // namespace mxlite::cuda
