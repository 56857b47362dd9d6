#include "cpp/ops/cpu/vision/regions.h"
#include "cpp/ops/cpu/vision/rotated_grid.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite {
namespace {

constexpr const char* kRotatedRoiAlignOp = "_contrib_RROIAlign";
constexpr int64_t kRotatedRoiAlignPlanes =
    16;  // number of channels that share the geometry of a point

cpu::RotatedBins region_bins(const RotatedRoiAlignParams& p, const Shape& data) {
  return {p.pooled_size[0], p.pooled_size[1], p.sampling_ratio, data[2], data[3], p.spatial_scale};
}

void rotated_align_native(KernelContext& ctx, const RotatedRoiAlignParams& p, Inputs in,
                          Outputs out) {
  const Shape &data = in[0].shape, &o = out[0].shape;
  const int64_t plane = data[2] * data[3], bins = o[2] * o[3], channels = data[1];
  dispatch_floating(kRotatedRoiAlignOp, in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    Acc* buffer = static_cast<Acc*>(ctx.scratch(static_cast<size_t>(in[1].size()) * sizeof(Acc)));
    const cpu::Regions<Acc> regions = cpu::read_regions(kRotatedRoiAlignOp, in[1], data[0], buffer);
    const int64_t blocks = (channels + kRotatedRoiAlignPlanes - 1) / kRotatedRoiAlignPlanes;
    cpu::parallel_for(
        regions.count * blocks, kRotatedRoiAlignPlanes * bins * 32, [&](int64_t item) {
          const int64_t r = item / blocks, c0 = item % blocks * kRotatedRoiAlignPlanes;
          const int64_t count = std::min(kRotatedRoiAlignPlanes, channels - c0);
          T* target = out[0].as<T>() + (r * channels + c0) * bins;
          if (regions.ignored(r) || !regions.finite(r)) {
            const Acc value = regions.ignored(r) ? Acc(0) : std::numeric_limits<Acc>::quiet_NaN();
            std::fill_n(target, count * bins, static_cast<T>(value));
            return;
          }
          const cpu::RotatedGrid<Acc> grid(region_bins(p, data), regions.row(r));
          const T* planes = in[0].as<T>() + (regions.image(r) * channels + c0) * plane;
          for (int64_t b = 0; b < bins; ++b) {
            Acc sum[kRotatedRoiAlignPlanes] = {};
            grid.for_points(b / o[3], b % o[3], [&](const cpu::Neighbours<Acc>& n) {
              for (int64_t c = 0; c < count; ++c) sum[c] += n.value(planes + c * plane);
            });
            for (int64_t c = 0; c < count; ++c)
              target[c * bins + b] = static_cast<T>(sum[c] / grid.count());
          }
        });
  });
}

void rotated_align_backward_native(KernelContext& ctx,
                                   const RoiGradParams<RotatedRoiAlignParams>& p, Inputs in,
                                   Outputs out) {
  const Shape &data = p.data_shape, &o = in[0].shape;
  const int64_t plane = data[2] * data[3], bins = o[2] * o[3], channels = data[1];
  dispatch_floating(kRotatedRoiAlignOp, in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::ScratchPlan plan;
    const size_t regions_at = plan.add<Acc>(in[1].size());
    const size_t sums_at = plan.add<Acc>(kRotatedRoiAlignPlanes * plane * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    const cpu::Regions<Acc> regions =
        cpu::read_regions(kRotatedRoiAlignOp, in[1], data[0], cpu::part<Acc>(block, regions_at));
    const int64_t blocks = (channels + kRotatedRoiAlignPlanes - 1) / kRotatedRoiAlignPlanes;
    const int64_t per_image = regions.count / std::max<int64_t>(data[0], 1) + 1;
    const int64_t work = kRotatedRoiAlignPlanes * (plane + per_image * bins * 32);
    cpu::parallel_ranges(data[0] * blocks, work, [&](int64_t begin, int64_t end, int thread) {
      Acc* sums = cpu::part<Acc>(block, sums_at) + thread * kRotatedRoiAlignPlanes * plane;
      for (int64_t item = begin; item < end; ++item) {
        const int64_t n = item / blocks, c0 = item % blocks * kRotatedRoiAlignPlanes;
        const int64_t count = std::min(kRotatedRoiAlignPlanes, channels - c0);
        std::fill_n(sums, count * plane, Acc(0));
        for (int64_t r = 0; r < regions.count; ++r) {
          if (regions.ignored(r) || regions.image(r) != n || !regions.finite(r)) continue;
          const cpu::RotatedGrid<Acc> grid(region_bins(p, data), regions.row(r));
          const T* grad = in[0].as<T>() + (r * channels + c0) * bins;
          for (int64_t b = 0; b < bins; ++b)
            grid.for_points(b / o[3], b % o[3], [&](const cpu::Neighbours<Acc>& point) {
              for (int64_t c = 0; c < count; ++c)
                point.scatter(sums + c * plane,
                              static_cast<Acc>(grad[c * bins + b]) / grid.count());
            });
        }
        T* target = out[0].as<T>() + (n * channels + c0) * plane;
        for (int64_t i = 0; i < count * plane; ++i) target[i] = static_cast<T>(sums[i]);
      }
    });
  });
}

}  // namespace

static const Registration rotated_roi_align_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<rotated_align_native>(kRotatedRoiAlignOp, {.inline_ok = false});
  ops.cpu_kernel<rotated_align_backward_native>("_rotated_roi_align_backward",
                                                {.inline_ok = false});
});

}  // namespace mxlite
