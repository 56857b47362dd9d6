#include "cpp/ops/cpu/vision/separable_bins.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite {
namespace {

constexpr const char* kPsRoiPoolingOp = "_contrib_PSROIPooling";

cpu::PoolShape pool_shape(const PsRoiPoolingParams& p, const Shape& data, const Shape& out) {
  return {data[1], data[2], data[3], out[1], out[2], out[3], p.groups(), p.groups()};
}

// Every pixel that a bin touches counts once.
template <class Acc>
void whole_pixels(const PsRoiPoolingParams& p, Acc from, Acc to, int64_t size,
                  cpu::AxisBins<Acc>& bins) {
  const Acc scale = static_cast<Acc>(p.spatial_scale);
  const Acc start = std::round(from) * scale, end = (std::round(to) + 1) * scale;
  const Acc bin = std::max(end - start, Acc(0.1)) / static_cast<Acc>(p.pooled_size);
  for (int64_t b = 0; b < p.pooled_size; ++b) {
    bins.begin_bin();
    const Acc low = static_cast<Acc>(b) * bin + start, high = static_cast<Acc>(b + 1) * bin + start;
    const int64_t first = cpu::clamp_index(std::floor(low), 0, size);
    const int64_t past = cpu::clamp_index(std::ceil(high), 0, size);
    for (int64_t i = first; i < past; ++i) bins.add(i, 1 / static_cast<Acc>(past - first));
    bins.end_bin();
  }
}

template <class Acc>
auto weights_of(const PsRoiPoolingParams& p, const cpu::PoolShape& q) {
  return [&p, &q](const Acc* region, cpu::AxisBins<Acc>& rows, cpu::AxisBins<Acc>& columns) {
    whole_pixels(p, region[2], region[4], q.height, rows);
    whole_pixels(p, region[1], region[3], q.width, columns);
    return Acc(1);
  };
}

void psroi_pooling_native(KernelContext& ctx, const PsRoiPoolingParams& p, Inputs in, Outputs out) {
  const cpu::PoolShape q = pool_shape(p, in[0].shape, out[0].shape);
  dispatch_floating(kPsRoiPoolingOp, in[0].dtype, [&]<class T>(T) {
    cpu::pool_regions<T>(ctx, kPsRoiPoolingOp, q, in, out[0], weights_of<ComputeType<T>>(p, q));
  });
}

void psroi_pooling_backward_native(KernelContext& ctx, const RoiGradParams<PsRoiPoolingParams>& p,
                                   Inputs in, Outputs out) {
  const cpu::PoolShape q = pool_shape(p, out[0].shape, in[0].shape);
  dispatch_floating(kPsRoiPoolingOp, in[0].dtype, [&]<class T>(T) {
    cpu::pool_regions_backward<T>(ctx, kPsRoiPoolingOp, q, in, out[0],
                                  weights_of<ComputeType<T>>(p, q));
  });
}

}  // namespace

static const Registration ps_roi_pooling_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<psroi_pooling_native>(kPsRoiPoolingOp, {.inline_ok = false});
  ops.cpu_kernel<psroi_pooling_backward_native>("_psroi_pooling_backward", {.inline_ok = false});
});

}  // namespace mxlite
