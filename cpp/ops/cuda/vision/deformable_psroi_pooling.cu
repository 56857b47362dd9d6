// Position-sensitive ROI pooling, where the input `trans` shifts the bins.
#include "cpp/ops/cpu/vision/moved_bins.h"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/vision/region_gather.cuh"
#include "cpp/ops/cuda/vision/regions.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using mxlite::cpu::Neighbours;

template <class T>
struct MovedArgs {
  using C = AccOf<T>;
  using Bins = mxlite::cpu::MovedBins<T, C>;
  Bins bins;
  int64_t batch, channels, regions, out_channels;
  const T *data, *grad;  // grad: gradient of the output
  const void* rois;
  DType rois_dtype;

  MovedArgs(const DeformablePsRoiPoolingParams& p, const TensorRef& image, const TensorRef& rois_of,
            const TensorRef* trans)
      : bins{p, image.shape[2], image.shape[3], trans ? trans->shape[1] / 2 : 1,
             trans ? trans->as<T>() : nullptr},
        batch(image.shape[0]),
        channels(image.shape[1]),
        regions(rois_of.shape[0]),
        out_channels(p.output_dim),
        data(image.as<T>()),
        grad(nullptr),
        rois(rois_of.data),
        rois_dtype(rois_of.dtype) {}

  MX_HOST_DEVICE int64_t plane() const { return bins.height * bins.width; }
  MX_HOST_DEVICE int64_t groups() const { return bins.p.group_size * bins.p.group_size; }
  MX_HOST_DEVICE int64_t bins_of_region() const { return bins.p.pooled_size * bins.p.pooled_size; }
  __device__ RegionRow<C, 5> region(int64_t r) const {
    return RegionRow<C, 5>::read(rois, rois_dtype, r);
  }
  __device__ typename Bins::Bin bin(const C* region, int64_t r, int64_t channel, int64_t k) const {
    return bins.bin(region, r, channel, k / bins.p.pooled_size, k % bins.p.pooled_size);
  }
  // Returns the gradient of each sampling point of a bin.
  __device__ C point_grad(const typename Bins::Bin& bin, int64_t r, int64_t channel,
                          int64_t k) const {
    const int64_t count = bins.for_points(bin, [](const Neighbours<C>&) {});
    const C given = convert<C>(grad[(r * out_channels + channel) * bins_of_region() + k]);
    return given / static_cast<C>(count > 1 ? count : 1);
  }
};

template <class T, class C = AccOf<T>>
__global__ void moved_pooling_kernel(int64_t n, const __grid_constant__ MovedArgs<T> a, T* out) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t k = at % a.bins_of_region(), item = at / a.bins_of_region();
    const int64_t r = item / a.out_channels, channel = item % a.out_channels;
    const auto region = a.region(r);
    C value = 0;
    if (!region.ignored() && !region.usable(a.batch)) {
      value = std::numeric_limits<C>::quiet_NaN();
    } else if (!region.ignored()) {
      const auto bin = a.bin(region.v, r, channel, k);
      const int64_t plane = region.image() * a.channels + channel * a.groups() + bin.group;
      const int64_t count = a.bins.for_points(bin, [&](const Neighbours<C>& p) {
        for (int q = 0; q < 4; ++q)
          value += p.weight[q] * convert<C>(a.data[plane * a.plane() + p.at[q]]);
      });
      if (bin.x != bin.x || bin.y != bin.y) value = std::numeric_limits<C>::quiet_NaN();
      value /= static_cast<C>(count > 1 ? count : 1);
    }
    out[at] = convert<T>(value);
  }
}

template <class T>
struct MovedGather {
  using C = AccOf<T>;
  struct Entry {  // a bin of a region, and the gradient of each of its points
    typename MovedArgs<T>::Bins::Bin bin;
    C grad;
  };
  static constexpr int kChannels = 1;  // 1, because each channel is read by other bins
  MovedArgs<T> a;

  __device__ bool touches(int64_t item, int64_t image, int64_t plane, const Rectangle& tile,
                          Entry& entry) const {
    const int64_t r = item / a.bins_of_region(), k = item % a.bins_of_region();
    const auto region = a.region(r);
    if (!region.reads(image, a.batch)) return false;
    const int64_t channel = plane / a.groups();
    entry.bin = a.bin(region.v, r, channel, k);
    if (entry.bin.group != plane % a.groups()) return false;
    const Rectangle own{first_line(entry.bin.y, a.bins.height),
                        past_line(entry.bin.y, entry.bin.step_y, a.bins.height),
                        first_line(entry.bin.x, a.bins.width),
                        past_line(entry.bin.x, entry.bin.step_x, a.bins.width)};
    if (!own.meets(tile)) return false;
    entry.grad = a.point_grad(entry.bin, r, channel, k);
    return true;
  }

  __device__ void add(const Entry& entry, int64_t, int, const Pixel& at, C (&sums)[1]) const {
    const int64_t pixel = at.row * a.bins.width + at.column;
    a.bins.for_points(entry.bin, [&](const Neighbours<C>& p) {
      for (int q = 0; q < 4; ++q)
        if (p.at[q] == pixel) sums[0] += p.weight[q] * entry.grad;
    });
  }

 private:
  // Returns the first line that the points of a bin may touch; 0 if `at` is NaN.
  __device__ static int64_t first_line(C at, int64_t size) {
    return mxlite::cpu::clamp_index(std::floor(at) - C(1), int64_t{0}, size - 1);
  }
  __device__ int64_t past_line(C at, C step, int64_t size) const {
    const C end = at + static_cast<C>(a.bins.p.sample_per_part) * step;
    return mxlite::cpu::clamp_index(std::ceil(end) + C(2), int64_t{0}, size);
  }
};

// One warp per part and class computes the gradients of its two offsets, along x and y. Each lane
// sums some of the channels; the lanes' sums are added in a fixed order.
template <class T, class C = AccOf<T>>
__global__ void moved_trans_gradient(int64_t n, const __grid_constant__ MovedArgs<T> a, T* out) {
  const C unit = static_cast<C>(a.bins.p.trans_std);
  const int64_t per_class = a.out_channels / a.bins.classes;
  const int lane = threadIdx.x % kWarp;
  for (int64_t at = global_index() / kWarp; at < n; at += grid_stride() / kWarp) {
    const int64_t part = at % a.bins.parts(), item = at / a.bins.parts();
    const int64_t r = item / a.bins.classes, own = item % a.bins.classes;
    const auto region = a.region(r);
    const bool used = !region.ignored() && region.usable(a.batch);
    C by_x = 0, by_y = 0;
    for (int64_t i = lane; used && i < per_class; i += kWarp) {
      const int64_t channel = own * per_class + i;
      for (int64_t k = 0; k < a.bins_of_region(); ++k) {
        const auto bin = a.bin(region.v, r, channel, k);
        if (bin.part != part) continue;
        const C grad = a.point_grad(bin, r, channel, k) * unit;
        const int64_t plane = region.image() * a.channels + channel * a.groups() + bin.group;
        a.bins.for_points(bin, [&](const Neighbours<C>& p) {
          C values[4];
          for (int q = 0; q < 4; ++q)
            values[q] = grad * convert<C>(a.data[plane * a.plane() + p.at[q]]);
          by_x += p.by_x(values) * bin.size_x;
          by_y += p.by_y(values) * bin.size_y;
        });
      }
    }
    by_x = warp_sum(by_x);
    by_y = warp_sum(by_y);
    if (lane > 0) continue;
    const int64_t to = a.bins.trans_at(r, own) + part;
    out[to] = convert<T>(by_x);
    out[to + a.bins.parts()] = convert<T>(by_y);
  }
}

constexpr const char* kOp = "_contrib_DeformablePSROIPooling";

void moved_pooling(KernelContext& ctx, const DeformablePsRoiPoolingParams& p, Inputs in,
                   Outputs out) {
  dispatch_float_elements(kOp, in[0].dtype, [&]<class T>(T) {
    const MovedArgs<T> a(p, in[0], in[1], in.size() > 2 ? &in[2] : nullptr);
    launch_items(ctx, moved_pooling_kernel<T>, out[0].size(), out[0].size(), a, out[0].as<T>());
  });
}

// `in`: output_grad, data, rois, trans.
void moved_pooling_backward(KernelContext& ctx, const DeformablePsRoiPoolingParams& p, Inputs in,
                            Outputs out) {
  dispatch_float_elements(kOp, in[0].dtype, [&]<class T>(T) {
    MovedArgs<T> a(p, in[1], in[2], in.size() > 3 ? &in[3] : nullptr);
    a.grad = in[0].as<T>();
    if (out.size() > 1) {
      const int64_t places = a.regions * a.bins.classes * a.bins.parts();
      launch_items(ctx, moved_trans_gradient<T>, places * kWarp, places, a, out[1].as<T>());
    }
    const GatherTarget target{out[0].data,
                              out[0].dtype,
                              a.batch,
                              a.channels,
                              a.bins.height,
                              a.bins.width,
                              a.regions * a.bins_of_region()};
    launch_gather(ctx, target, MovedGather<T>{a});
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::moved_pooling>(cuda::kOp);
  ops.cuda_kernel<&cuda::moved_pooling_backward>("_deformable_psroi_pooling_backward");
});

}  // namespace mxlite::cuda
