#include <array>

#include "cpp/ops/cpu/image/pixel.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/image/color_rules.h"
#include "cpp/ops/image/image.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class T>
struct ColorImage {
  T* data;
  int64_t pixels, channels;

  float gray(int64_t i) const {
    const T* const p = data + i * channels;
    if (channels == 1) return static_cast<float>(p[0]);
    return color::gray(static_cast<float>(p[0]), static_cast<float>(p[1]),
                       static_cast<float>(p[2]));
  }
};

template <class T>
void brighten(const ColorImage<T>& image, float factor) {
  for (int64_t i = 0; i < image.pixels * image.channels; ++i)
    image.data[i] = cpu::to_pixel<T>(static_cast<float>(image.data[i]) * factor);
}

template <class T>
void change_contrast(const ColorImage<T>& image, float factor) {
  double sum = 0;
  for (int64_t i = 0; i < image.pixels; ++i) sum += image.gray(i);
  const auto mean =
      static_cast<float>(sum / static_cast<double>(std::max<int64_t>(image.pixels, 1)));
  for (int64_t i = 0; i < image.pixels * image.channels; ++i)
    image.data[i] =
        cpu::to_pixel<T>(static_cast<float>(image.data[i]) * factor + mean * (1 - factor));
}

template <class T>
void saturate(const ColorImage<T>& image, float factor) {
  if (image.channels == 1) return;
  for (int64_t i = 0; i < image.pixels; ++i) {
    const float gray = image.gray(i) * (1 - factor);
    T* const p = image.data + i * 3;
    for (int c = 0; c < 3; ++c) p[c] = cpu::to_pixel<T>(static_cast<float>(p[c]) * factor + gray);
  }
}

template <class T>
void change_hue(const ColorImage<T>& image, float turn) {
  if (image.channels == 1) return;
  for (int64_t i = 0; i < image.pixels; ++i) {
    T* const p = image.data + i * 3;
    const color::Rgb rgb = color::turn_hue(
        {static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2])}, turn);
    p[0] = cpu::to_pixel<T>(rgb.r);
    p[1] = cpu::to_pixel<T>(rgb.g);
    p[2] = cpu::to_pixel<T>(rgb.b);
  }
}

template <class T>
void light(const ColorImage<T>& image, const std::array<float, 3>& alpha) {
  if (image.channels == 1) return;
  const color::Rgb by = color::light_shift(alpha[0], alpha[1], alpha[2]);
  const float shift[3] = {by.r, by.g, by.b};
  for (int64_t i = 0; i < image.pixels; ++i)
    for (int c = 0; c < 3; ++c)
      image.data[i * 3 + c] =
          cpu::to_pixel<T>(static_cast<float>(image.data[i * 3 + c]) + shift[c]);
}

// The random numbers for one image.
struct Draws {
  RandomState random;
  uint64_t next = 0;

  std::array<uint32_t, 4> words() { return philox(random.seed, random.offset + next++); }
  float between(double low, double high) {
    return static_cast<float>(low + (high - low) * to_uniform(words()[0]));
  }
};

// Copies data to the output and calls fn(image, draws) for every image of the output.
void for_each_image(KernelContext& ctx, Inputs in, Outputs out, auto fn) {
  cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
  const ImageView v = image_view("image", {out[0].shape, out[0].dtype});
  cpu::dispatch_pixel(out[0].dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < v.count; ++i) {
      const int64_t pixels = v.height * v.width;
      Draws draws{
          {ctx.random.seed, ctx.random.offset + static_cast<uint64_t>(i) * kRandomPerImage}};
      fn(ColorImage<T>{out[0].as<T>() + i * pixels * v.channels, pixels, v.channels}, draws);
    }
  });
}

enum class Change { kBrightness, kContrast, kSaturation, kHue };

template <class T>
void apply(Change change, const ColorImage<T>& image, float factor) {
  switch (change) {
    case Change::kBrightness:
      return brighten(image, factor);
    case Change::kContrast:
      return change_contrast(image, factor);
    case Change::kSaturation:
      return saturate(image, factor);
    case Change::kHue:
      return change_hue(image, factor);
  }
}

template <Change kChange>
void random_change_native(KernelContext& ctx, const ImageFactorParams& p, Inputs in, Outputs out) {
  for_each_image(ctx, in, out, [&](const auto& image, Draws& draws) {
    apply(kChange, image, draws.between(p.min_factor, p.max_factor));
  });
}

void jitter_native(KernelContext& ctx, const ImageJitterParams& p, Inputs in, Outputs out) {
  const double limits[] = {p.brightness, p.contrast, p.saturation, p.hue};
  for_each_image(ctx, in, out, [&](const auto& image, Draws& draws) {
    std::array<int, 4> order = {0, 1, 2, 3};
    const auto words = draws.words();
    for (size_t i = 3; i > 0; --i) std::swap(order[i], order[words[i] % (i + 1)]);
    for (const int which : order) {
      const double limit = limits[which];
      const auto change = static_cast<Change>(which);
      const double center = change == Change::kHue ? 0 : 1;
      if (limit > 0) apply(change, image, draws.between(center - limit, center + limit));
    }
  });
}

void adjust_lighting_native(KernelContext& ctx, const ImageLightingParams& p, Inputs in,
                            Outputs out) {
  const std::array<float, 3> alpha = {static_cast<float>(p.alpha[0]),
                                      static_cast<float>(p.alpha[1]),
                                      static_cast<float>(p.alpha[2])};
  for_each_image(ctx, in, out, [&](const auto& image, Draws&) { light(image, alpha); });
}

void random_lighting_native(KernelContext& ctx, const ImageRandomLightingParams& p, Inputs in,
                            Outputs out) {
  const auto deviation = static_cast<float>(p.alpha_std);
  for_each_image(ctx, in, out, [&](const auto& image, Draws& draws) {
    const auto words = draws.words();
    const auto first = to_normal(words[0], words[1]), second = to_normal(words[2], words[3]);
    light(image, {first[0] * deviation, first[1] * deviation, second[0] * deviation});
  });
}

}  // namespace

static const Registration color_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&random_change_native<Change::kBrightness>>("_image_random_brightness");
  ops.cpu_kernel<&random_change_native<Change::kContrast>>("_image_random_contrast");
  ops.cpu_kernel<&random_change_native<Change::kSaturation>>("_image_random_saturation");
  ops.cpu_kernel<&random_change_native<Change::kHue>>("_image_random_hue");
  ops.cpu_kernel<&jitter_native>("_image_random_color_jitter");
  ops.cpu_kernel<&adjust_lighting_native>("_image_adjust_lighting");
  ops.cpu_kernel<&random_lighting_native>("_image_random_lighting");
});

}  // namespace mxlite
