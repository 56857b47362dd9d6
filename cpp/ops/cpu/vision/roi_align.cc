#include "cpp/ops/cpu/vision/separable_bins.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite {
namespace {

constexpr const char* kRoiAlignOp = "_contrib_ROIAlign";

cpu::PoolShape aligned_shape(const RoiAlignParams& p, const Shape& data, const Shape& out) {
  cpu::PoolShape q{data[1], data[2], data[3], out[1], out[2], out[3]};
  if (p.position_sensitive) {
    q.groups_h = q.bins_h;
    q.groups_w = q.bins_w;
  }
  return q;
}

// One axis of a region: bins of length `bin`, starting at `start`, each with `samples` points.
template <class Acc>
struct SampledAxis {
  Acc start, bin;
  int64_t samples;

  // Points more than one pixel beyond the border count as zero; nearer points use the border value.
  void weights(int64_t bins, int64_t size, cpu::AxisBins<Acc>& to) const {
    const Acc step = bin / static_cast<Acc>(samples), last = static_cast<Acc>(size);
    for (int64_t b = 0; b < bins; ++b) {
      to.begin_bin();
      const Acc origin = start + static_cast<Acc>(b) * bin;
      int64_t first = 0, past = samples;
      if (step > 0) {  // visits only points near the image, because a region may be huge
        first = cpu::clamp_index(std::floor((-1 - origin) / step) - 1, 0, samples);
        past = cpu::clamp_index(std::ceil((last - origin) / step) + 1, first, samples);
      }
      for (int64_t i = first; i < past; ++i) {
        Acc at = origin + (static_cast<Acc>(i) + Acc(0.5)) * bin / static_cast<Acc>(samples);
        if (at < -1 || at > last) continue;
        at = std::max(at, Acc(0));
        const int64_t low = std::min(static_cast<int64_t>(at), size - 1);
        const Acc rest = low == size - 1 ? Acc(0) : at - static_cast<Acc>(low);
        to.add(low, 1 - rest);
        if (low + 1 < size) to.add(low + 1, rest);
      }
      to.end_bin();
    }
  }
};

template <class Acc>
SampledAxis<Acc> sampled_axis(const RoiAlignParams& p, Acc from, Acc to, int64_t bins) {
  const Acc scale = static_cast<Acc>(p.spatial_scale), offset = p.aligned ? Acc(0.5) : Acc(0);
  const Acc start = from * scale - offset;
  Acc length = to * scale - offset - start;
  if (!p.aligned) length = std::max(length, Acc(1));
  SampledAxis<Acc> axis{start, length / static_cast<Acc>(bins), p.sample_ratio};
  if (p.sample_ratio <= 0)
    axis.samples = cpu::clamp_index(std::ceil(axis.bin), 0, int64_t{1} << 30);
  return axis;
}

template <class Acc>
auto aligned_weights(const RoiAlignParams& p, const cpu::PoolShape& q) {
  return [&p, &q](const Acc* region, cpu::AxisBins<Acc>& rows, cpu::AxisBins<Acc>& columns) {
    const SampledAxis<Acc> x = sampled_axis(p, region[1], region[3], q.bins_w);
    const SampledAxis<Acc> y = sampled_axis(p, region[2], region[4], q.bins_h);
    y.weights(q.bins_h, q.height, rows);
    x.weights(q.bins_w, q.width, columns);
    return 1 / static_cast<Acc>(std::max<int64_t>(x.samples * y.samples, 1));
  };
}

void check_sizes(const RoiAlignParams& p, const TensorRef& rois) {
  if (!p.aligned) return;  // regions are at least one pixel long
  dispatch_floating(kRoiAlignOp, rois.dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    for (int64_t r = 0; r < rois.shape[0]; ++r) {
      const T* v = rois.as<T>() + r * 5;
      const Acc width = static_cast<Acc>(v[3]) - static_cast<Acc>(v[1]);
      const Acc height = static_cast<Acc>(v[4]) - static_cast<Acc>(v[2]);
      MX_CHECK(static_cast<Acc>(v[0]) < 0 || !(width < 0 || height < 0), kRoiAlignOp,
               ": with aligned=True, width and height of rois[", r, "] must be at least 0, got ",
               width, " and ", height);
    }
  });
}

void roi_align_native(KernelContext& ctx, const RoiAlignParams& p, Inputs in, Outputs out) {
  const cpu::PoolShape q = aligned_shape(p, in[0].shape, out[0].shape);
  check_sizes(p, in[1]);
  dispatch_floating(kRoiAlignOp, in[0].dtype, [&]<class T>(T) {
    cpu::pool_regions<T>(ctx, kRoiAlignOp, q, in, out[0], aligned_weights<ComputeType<T>>(p, q));
  });
}

void roi_align_backward_native(KernelContext& ctx, const RoiGradParams<RoiAlignParams>& p,
                               Inputs in, Outputs out) {
  const cpu::PoolShape q = aligned_shape(p, out[0].shape, in[0].shape);
  check_sizes(p, in[1]);
  dispatch_floating(kRoiAlignOp, in[0].dtype, [&]<class T>(T) {
    cpu::pool_regions_backward<T>(ctx, kRoiAlignOp, q, in, out[0],
                                  aligned_weights<ComputeType<T>>(p, q));
  });
}

}  // namespace

static const Registration roi_align_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<roi_align_native>(kRoiAlignOp, {.inline_ok = false});
  ops.cpu_kernel<roi_align_backward_native>("_roi_align_backward", {.inline_ok = false});
});

}  // namespace mxlite
