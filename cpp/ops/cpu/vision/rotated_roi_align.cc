#include "cpp/ops/cpu/vision/bilinear.h"
#include "cpp/ops/cpu/vision/regions.h"
#include "cpp/ops/op_schema.h"
#include "cpp/ops/vision/register.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite {
namespace {

constexpr const char* kOp = "_contrib_RROIAlign";
constexpr int64_t kPlanes = 16;  // channels that share the geometry of a point

template <class Acc>
struct RotatedGrid {
  Acc centre_x, centre_y, bin_h, bin_w, start_h, start_w, cosine, sine;
  int64_t samples_h, samples_w, height, width;

  RotatedGrid(const RotatedRoiAlignParams& p, const Acc* region, const Shape& data)
      : height(data[2]), width(data[3]) {
    const Acc scale = static_cast<Acc>(p.spatial_scale);
    centre_x = region[1] * scale;
    centre_y = region[2] * scale;
    const Acc w = std::max(region[3] * scale, Acc(1)), h = std::max(region[4] * scale, Acc(1));
    const Acc angle = region[5] * static_cast<Acc>(3.14159265358979323846 / 180);
    cosine = std::cos(angle);
    sine = std::sin(angle);
    bin_h = h / static_cast<Acc>(p.pooled_size[0]);
    bin_w = w / static_cast<Acc>(p.pooled_size[1]);
    start_h = -h / 2;
    start_w = -w / 2;
    // Regions far larger than the image need no more points than its pixels.
    const int64_t most = 4 * (height + width);
    samples_h =
        p.sampling_ratio > 0 ? p.sampling_ratio : cpu::clamp_index(std::ceil(bin_h), 1, most);
    samples_w =
        p.sampling_ratio > 0 ? p.sampling_ratio : cpu::clamp_index(std::ceil(bin_w), 1, most);
  }
  Acc count() const { return static_cast<Acc>(samples_h) * static_cast<Acc>(samples_w); }

  // fn(neighbours) for the points of bin (i, j) that touch the image.
  template <class F>
  void for_points(int64_t i, int64_t j, F&& fn) const {
    for (int64_t a = 0; a < samples_h; ++a) {
      const Acc down = start_h + static_cast<Acc>(i) * bin_h +
                       (static_cast<Acc>(a) + Acc(0.5)) * bin_h / static_cast<Acc>(samples_h);
      for (int64_t b = 0; b < samples_w; ++b) {
        const Acc right = start_w + static_cast<Acc>(j) * bin_w +
                          (static_cast<Acc>(b) + Acc(0.5)) * bin_w / static_cast<Acc>(samples_w);
        const Acc x = right * cosine + down * sine + centre_x;
        const Acc y = down * cosine - right * sine + centre_y;
        if (!(y >= -1 && y <= static_cast<Acc>(height) && x >= -1 && x <= static_cast<Acc>(width)))
          continue;
        fn(cpu::combine(cpu::clamped(y, height), cpu::clamped(x, width), width));
      }
    }
  }
};

void rotated_align_native(KernelContext& ctx, const RotatedRoiAlignParams& p, Inputs in,
                          Outputs out) {
  const Shape &data = in[0].shape, &o = out[0].shape;
  const int64_t plane = data[2] * data[3], bins = o[2] * o[3], channels = data[1];
  dispatch_floating(kOp, in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    Acc* buffer = static_cast<Acc*>(ctx.scratch(static_cast<size_t>(in[1].size()) * sizeof(Acc)));
    const cpu::Regions<Acc> regions = cpu::read_regions(kOp, in[1], data[0], buffer);
    const int64_t blocks = (channels + kPlanes - 1) / kPlanes;
    cpu::parallel_for(regions.count * blocks, kPlanes * bins * 32, [&](int64_t item) {
      const int64_t r = item / blocks, c0 = item % blocks * kPlanes;
      const int64_t count = std::min(kPlanes, channels - c0);
      T* target = out[0].as<T>() + (r * channels + c0) * bins;
      if (regions.ignored(r) || !regions.finite(r)) {
        const Acc value = regions.ignored(r) ? Acc(0) : std::numeric_limits<Acc>::quiet_NaN();
        std::fill_n(target, count * bins, static_cast<T>(value));
        return;
      }
      const RotatedGrid<Acc> grid(p, regions.row(r), data);
      const T* planes = in[0].as<T>() + (regions.image(r) * channels + c0) * plane;
      for (int64_t b = 0; b < bins; ++b) {
        Acc sum[kPlanes] = {};
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
  dispatch_floating(kOp, in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::ScratchPlan plan;
    const size_t regions_at = plan.add<Acc>(in[1].size());
    const size_t sums_at = plan.add<Acc>(kPlanes * plane * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    const cpu::Regions<Acc> regions =
        cpu::read_regions(kOp, in[1], data[0], cpu::part<Acc>(block, regions_at));
    const int64_t blocks = (channels + kPlanes - 1) / kPlanes;
    const int64_t per_image = regions.count / std::max<int64_t>(data[0], 1) + 1;
    const int64_t work = kPlanes * (plane + per_image * bins * 32);
    cpu::parallel_ranges(data[0] * blocks, work, [&](int64_t begin, int64_t end, int thread) {
      Acc* sums = cpu::part<Acc>(block, sums_at) + thread * kPlanes * plane;
      for (int64_t item = begin; item < end; ++item) {
        const int64_t n = item / blocks, c0 = item % blocks * kPlanes;
        const int64_t count = std::min(kPlanes, channels - c0);
        std::fill_n(sums, count * plane, Acc(0));
        for (int64_t r = 0; r < regions.count; ++r) {
          if (regions.ignored(r) || regions.image(r) != n || !regions.finite(r)) continue;
          const RotatedGrid<Acc> grid(p, regions.row(r), data);
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

void register_rotated_roi_align_cpu(OpRegistry& ops) {
  constexpr DeviceType kCPU = DeviceType::kCPU;
  ops.kernel<rotated_align_native>(kOp, kCPU, {.inline_ok = false});
  ops.kernel<rotated_align_backward_native>("_rotated_roi_align_backward", kCPU,
                                            {.inline_ok = false});
}

}  // namespace mxlite
