#include <vector>

#include "cpp/ops/cpu/image/pixel.h"
#include "cpp/ops/cpu/image/resample.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/image/image.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

ImageView view_of(const TensorRef& t) { return image_view("image", {t.shape, t.dtype}); }

void to_tensor_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const ImageView v = view_of(in[0]);
  const int64_t pixels = v.height * v.width;
  cpu::dispatch_pixel(in[0].dtype, [&]<class T>(T) {
    cpu::parallel_for(v.count * v.channels, pixels, [&](int64_t plane) {
      const int64_t image = plane / v.channels, channel = plane % v.channels;
      const T* const from = in[0].as<T>() + image * pixels * v.channels + channel;
      float* const to = out[0].as<float>() + plane * pixels;
      for (int64_t i = 0; i < pixels; ++i)
        to[i] = static_cast<float>(from[i * v.channels]) / 255.0f;
    });
  });
}

void normalize_native(KernelContext&, const ImageNormalizeParams& p, Inputs in, Outputs out) {
  const Shape& s = in[0].shape;
  const int64_t channels = s[s.ndim() - 3], pixels = s[s.ndim() - 2] * s[s.ndim() - 1];
  const int64_t planes = s.product(0, s.ndim() - 2);
  const auto value = [](const std::vector<double>& values, int64_t channel) {
    return values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
  };
  dispatch_floating("_image_normalize", in[0].dtype, [&]<class T>(T) {
    using C = ComputeType<T>;
    cpu::parallel_for(planes, 2 * pixels, [&](int64_t plane) {
      const auto mean = static_cast<C>(value(p.mean, plane % channels));
      const auto scale = static_cast<C>(value(p.std, plane % channels));
      const T* const from = in[0].as<T>() + plane * pixels;
      T* const to = out[0].as<T>() + plane * pixels;
      for (int64_t i = 0; i < pixels; ++i)
        to[i] = static_cast<T>((static_cast<C>(from[i]) - mean) / scale);
    });
  });
}

void crop_native(KernelContext&, const ImageCropParams& p, Inputs in, Outputs out) {
  const ImageView v = view_of(in[0]);
  const size_t bytes = dtype_size(in[0].dtype);
  cpu::CopyAxes axes;
  axes.push_back({v.count, p.height * p.width * v.channels, v.height * v.width * v.channels});
  axes.push_back({p.height, p.width * v.channels, v.width * v.channels});
  axes.push_back({p.width * v.channels, 1, 1});
  cpu::strided_copy(bytes, axes, out[0].data,
                    cpu::at(in[0].data, (p.y * v.width + p.x) * v.channels, bytes));
}

void resize_native(KernelContext& ctx, const ImageResizeParams& p, Inputs in, Outputs out) {
  const ImageView from = view_of(in[0]), to = view_of(out[0]);
  cpu::resample(ctx, static_cast<cpu::Interpolation>(p.interp), in[0], from, out[0], to);
}

void flip(const ImageView& v, size_t bytes, bool left_right, const void* from, void* to) {
  const int64_t row = v.width * v.channels;
  if (v.height * row == 0) return;
  cpu::CopyAxes axes;
  axes.push_back({v.height, row, left_right ? row : -row});
  axes.push_back({v.width, v.channels, left_right ? -v.channels : v.channels});
  axes.push_back({v.channels, 1, 1});
  const int64_t start = left_right ? row - v.channels : (v.height - 1) * row;
  cpu::strided_copy(bytes, axes, to, cpu::at(from, start, bytes));
}

template <bool kLeftRight, bool kRandom>
void flip_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const ImageView v = view_of(in[0]);
  const size_t bytes = dtype_size(in[0].dtype);
  const int64_t size = v.height * v.width * v.channels;
  for (int64_t i = 0; i < v.count; ++i) {
    const void* const from = cpu::at(in[0].data, i * size, bytes);
    void* const to = cpu::at(out[0].data, i * size, bytes);
    const uint64_t counter = ctx.random.offset + static_cast<uint64_t>(i) * kRandomPerImage;
    if (kRandom && (philox(ctx.random.seed, counter)[0] & 1))
      cpu::contiguous_copy(to, from, static_cast<size_t>(size) * bytes);
    else
      flip(v, bytes, kLeftRight, from, to);
  }
}

}  // namespace

static const Registration geometry_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&to_tensor_native>("_image_to_tensor");
  ops.cpu_kernel<&normalize_native>("_image_normalize");
  ops.cpu_kernel<&crop_native>("_image_crop");
  ops.cpu_kernel<&resize_native>("_image_resize", {.inline_ok = false});
  ops.cpu_kernel<&flip_native<true, false>>("_image_flip_left_right");
  ops.cpu_kernel<&flip_native<false, false>>("_image_flip_top_bottom");
  ops.cpu_kernel<&flip_native<true, true>>("_image_random_flip_left_right");
  ops.cpu_kernel<&flip_native<false, true>>("_image_random_flip_top_bottom");
});

}  // namespace mxlite
