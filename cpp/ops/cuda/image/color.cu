// One block per image, because some changes need the mean of the whole image, and because in a
// jitter each change works on the result of the previous change.
#include "cpp/ops/cuda/image/pixel.cuh"
#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/random.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/image/color_rules.h"
#include "cpp/ops/image/image.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

struct Images {
  void* data;
  DType dtype;
  int64_t count, pixels, channels;
};

// One image processed by a block. Each thread always processes the same pixels, so changes need no
// barrier.
struct Image {
  void* data;
  DType dtype;
  int64_t first, pixels, channels;

  __device__ int64_t at(int64_t pixel) const { return first + pixel * channels; }
  __device__ color::Rgb load(int64_t pixel) const {
    const int64_t i = at(pixel);
    return {load_pixel(data, dtype, i), load_pixel(data, dtype, i + 1),
            load_pixel(data, dtype, i + 2)};
  }
  __device__ void store(int64_t pixel, const color::Rgb& v) const {
    const int64_t i = at(pixel);
    store_pixel(data, dtype, i, v.r);
    store_pixel(data, dtype, i + 1, v.g);
    store_pixel(data, dtype, i + 2, v.b);
  }
  __device__ float gray(int64_t pixel) const {
    if (channels == 1) return load_pixel(data, dtype, at(pixel));
    const color::Rgb v = load(pixel);
    return color::gray(v.r, v.g, v.b);
  }
  // Replaces every channel value v by v * factor + shift.
  __device__ void scale(float factor, float shift) const {
    for (int64_t p = threadIdx.x; p < pixels; p += blockDim.x)
      for (int64_t i = at(p); i < at(p + 1); ++i)
        store_pixel(data, dtype, i, load_pixel(data, dtype, i) * factor + shift);
  }
  __device__ float mean_gray() const {
    double sum = 0;
    for (int64_t p = threadIdx.x; p < pixels; p += blockDim.x) sum += gray(p);
    return static_cast<float>(block_sum(sum) / static_cast<double>(pixels > 0 ? pixels : 1));
  }
};

enum class Change { kBrightness, kContrast, kSaturation, kHue };

__device__ void apply(Change change, const Image& image, float factor) {
  if (change == Change::kBrightness) return image.scale(factor, 0);
  if (change == Change::kContrast) return image.scale(factor, image.mean_gray() * (1 - factor));
  if (image.channels == 1) return;
  for (int64_t p = threadIdx.x; p < image.pixels; p += blockDim.x) {
    const color::Rgb v = image.load(p);
    if (change == Change::kHue) {
      image.store(p, color::turn_hue(v, factor));
    } else {
      const float gray = color::gray(v.r, v.g, v.b) * (1 - factor);
      image.store(p, {v.r * factor + gray, v.g * factor + gray, v.b * factor + gray});
    }
  }
}

__device__ void light(const Image& image, float a, float b, float c) {
  if (image.channels == 1) return;
  const color::Rgb by = color::light_shift(a, b, c);
  for (int64_t p = threadIdx.x; p < image.pixels; p += blockDim.x) {
    const color::Rgb v = image.load(p);
    image.store(p, {v.r + by.r, v.g + by.g, v.b + by.b});
  }
}

// The random numbers of one image, which are the same as on the CPU.
struct Draws {
  RandomState random;
  uint64_t next = 0;
  __device__ std::array<uint32_t, 4> words() { return philox(random.seed, random.offset + next++); }
  __device__ float between(double low, double high) {
    return static_cast<float>(low + (high - low) * to_uniform(words()[0]));
  }
};

struct OneChange {
  Change change;
  double low, high;
  __device__ void operator()(const Image& image, Draws& draws) const {
    apply(change, image, draws.between(low, high));
  }
};
struct Jitter {
  double limits[4];
  __device__ void operator()(const Image& image, Draws& draws) const {
    int order[4] = {0, 1, 2, 3};
    const auto words = draws.words();
    for (int i = 3; i > 0; --i) {
      const int other = static_cast<int>(words[i] % (i + 1)), kept = order[i];
      order[i] = order[other];
      order[other] = kept;
    }
    for (const int which : order) {
      const double limit = limits[which];
      const auto change = static_cast<Change>(which);
      const double center = change == Change::kHue ? 0 : 1;
      if (limit > 0) apply(change, image, draws.between(center - limit, center + limit));
    }
  }
};
struct Light {
  float a, b, c;
  __device__ void operator()(const Image& image, Draws&) const { light(image, a, b, c); }
};
struct RandomLight {
  float deviation;
  __device__ void operator()(const Image& image, Draws& draws) const {
    const auto words = draws.words();
    const auto first = to_normal(words[0], words[1]), second = to_normal(words[2], words[3]);
    light(image, first[0] * deviation, first[1] * deviation, second[0] * deviation);
  }
};

template <class F>
__global__ void __launch_bounds__(kThreads) change_images(Images all, DeviceRandom random, F fn) {
  const RandomState state = random.load();
  for (int64_t i = blockIdx.x; i < all.count; i += gridDim.x) {
    const Image image{all.data, all.dtype, i * all.pixels * all.channels, all.pixels, all.channels};
    Draws draws{{state.seed, state.offset + static_cast<uint64_t>(i) * kRandomPerImage}};
    fn(image, draws);
  }
}

template <class F>
void run(KernelContext& ctx, Inputs in, Outputs out, const F& fn) {
  copy_bytes(ctx, out[0].data, in[0].data, out[0].bytes());
  if (out[0].size() == 0) return;
  const ImageView v = image_view("image", {out[0].shape, out[0].dtype});
  const Images all{out[0].data, out[0].dtype, v.count, v.height * v.width, v.channels};
  launch(ctx, change_images<F>, blocks_per_task(ctx, v.count), kThreads, all, device_random(ctx),
         fn);
}

template <Change kChange>
void random_change(KernelContext& ctx, const ImageFactorParams& p, Inputs in, Outputs out) {
  run(ctx, in, out, OneChange{kChange, p.min_factor, p.max_factor});
}
void jitter(KernelContext& ctx, const ImageJitterParams& p, Inputs in, Outputs out) {
  run(ctx, in, out, Jitter{{p.brightness, p.contrast, p.saturation, p.hue}});
}
void adjust_lighting(KernelContext& ctx, const ImageLightingParams& p, Inputs in, Outputs out) {
  run(ctx, in, out,
      Light{static_cast<float>(p.alpha[0]), static_cast<float>(p.alpha[1]),
            static_cast<float>(p.alpha[2])});
}
void random_lighting(KernelContext& ctx, const ImageRandomLightingParams& p, Inputs in,
                     Outputs out) {
  run(ctx, in, out, RandomLight{static_cast<float>(p.alpha_std)});
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&random_change<Change::kBrightness>>("_image_random_brightness");
  ops.cuda_kernel<&random_change<Change::kContrast>>("_image_random_contrast");
  ops.cuda_kernel<&random_change<Change::kSaturation>>("_image_random_saturation");
  ops.cuda_kernel<&random_change<Change::kHue>>("_image_random_hue");
  ops.cuda_kernel<&jitter>("_image_random_color_jitter");
  ops.cuda_kernel<&adjust_lighting>("_image_adjust_lighting");
  ops.cuda_kernel<&random_lighting>("_image_random_lighting");
});

}  // namespace mxlite::cuda
