#include "cpp/ops/cpu/vision/moved_bins.h"
#include "cpp/ops/cpu/vision/regions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kDeformablePsRoiPoolingOp = "_contrib_DeformablePSROIPooling";

template <class T>
using BinGeometry = cpu::MovedBins<T, ComputeType<T>>;

template <class T>
BinGeometry<T> geometry(const DeformablePsRoiPoolingParams& p, const Shape& data,
                        const TensorRef* trans) {
  return {p, data[2], data[3], trans ? trans->shape[1] / 2 : 1, trans ? trans->as<T>() : nullptr};
}

void pooling_native(KernelContext& ctx, const DeformablePsRoiPoolingParams& p, Inputs in,
                    Outputs out) {
  const Shape &data = in[0].shape, &o = out[0].shape;
  const int64_t plane = data[2] * data[3], bins = o[2] * o[3];
  const int64_t groups = p.group_size * p.group_size;
  dispatch_floating(kDeformablePsRoiPoolingOp, in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    Acc* buffer = static_cast<Acc*>(ctx.scratch(static_cast<size_t>(in[1].size()) * sizeof(Acc)));
    const cpu::Regions<Acc> regions =
        cpu::read_regions(kDeformablePsRoiPoolingOp, in[1], data[0], buffer);
    const BinGeometry<T> g = geometry<T>(p, data, in.size() > 2 ? &in[2] : nullptr);
    const int64_t work = bins * p.sample_per_part * p.sample_per_part * 32;
    cpu::parallel_for(regions.count * o[1], work, [&](int64_t item) {
      const int64_t r = item / o[1], c = item % o[1];
      T* target = out[0].as<T>() + item * bins;
      if (regions.ignored(r) || !regions.finite(r)) {
        const Acc value = regions.ignored(r) ? Acc(0) : std::numeric_limits<Acc>::quiet_NaN();
        std::fill_n(target, bins, static_cast<T>(value));
        return;
      }
      const T* planes = in[0].as<T>() + (regions.image(r) * data[1] + c * groups) * plane;
      for (int64_t k = 0; k < bins; ++k) {
        const auto bin = g.bin(regions.row(r), r, c, k / o[3], k % o[3]);
        Acc sum = 0;
        const int64_t count = g.for_points(bin, [&](const cpu::Neighbours<Acc>& n) {
          sum += n.value(planes + bin.group * plane);
        });
        if (std::isnan(bin.x) || std::isnan(bin.y)) sum = std::numeric_limits<Acc>::quiet_NaN();
        target[k] = static_cast<T>(sum / static_cast<Acc>(std::max<int64_t>(count, 1)));
      }
    });
  });
}

// Returns the share of a bin's gradient that each of its points gets.
template <class T, class Acc>
Acc point_grad(const BinGeometry<T>& g, const typename BinGeometry<T>::Bin& bin, T grad) {
  const int64_t count = g.for_points(bin, [](const cpu::Neighbours<Acc>&) {});
  return static_cast<Acc>(grad) / static_cast<Acc>(std::max<int64_t>(count, 1));
}

// A thread processes all planes that one output channel reads in one image.
template <class T, class Acc>
void data_gradient(const BinGeometry<T>& g, const cpu::Regions<Acc>& regions, const TensorRef& grad,
                   const TensorRef& target, Acc* scratch) {
  const Shape &data = target.shape, &o = grad.shape;
  const int64_t bins = o[2] * o[3];
  const int64_t plane = data[2] * data[3], size = g.p.group_size * g.p.group_size * plane;
  cpu::parallel_ranges(data[0] * o[1], size * 4, [&](int64_t begin, int64_t end, int thread) {
    Acc* sum = scratch + thread * size;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t n = item / o[1], c = item % o[1];
      std::fill_n(sum, size, Acc(0));
      for (int64_t r = 0; r < regions.count; ++r) {
        if (regions.ignored(r) || regions.image(r) != n || !regions.finite(r)) continue;
        for (int64_t k = 0; k < bins; ++k) {
          const auto bin = g.bin(regions.row(r), r, c, k / o[3], k % o[3]);
          const Acc each = point_grad<T, Acc>(g, bin, grad.as<T>()[(r * o[1] + c) * bins + k]);
          g.for_points(bin, [&](const cpu::Neighbours<Acc>& point) {
            point.scatter(sum + bin.group * plane, each);
          });
        }
      }
      for (int64_t i = 0; i < size; ++i) target.as<T>()[item * size + i] = static_cast<T>(sum[i]);
    }
  });
}

// A thread processes the offsets of whole regions.
template <class T, class Acc>
void trans_gradient(const BinGeometry<T>& g, const cpu::Regions<Acc>& regions,
                    const TensorRef& grad, const TensorRef& data_ref, const TensorRef& target,
                    Acc* scratch) {
  const Shape &data = data_ref.shape, &o = grad.shape;
  const int64_t bins = o[2] * o[3], plane = data[2] * data[3];
  const int64_t groups = g.p.group_size * g.p.group_size, size = g.classes * 2 * g.parts();
  const Acc unit = static_cast<Acc>(g.p.trans_std);
  cpu::parallel_ranges(regions.count, o[1] * bins * 64, [&](int64_t begin, int64_t end, int t) {
    Acc* sum = scratch + t * size;
    for (int64_t r = begin; r < end; ++r) {
      std::fill_n(sum, size, Acc(0));
      const bool used = !regions.ignored(r) && regions.finite(r);
      for (int64_t item = 0; used && item < o[1] * bins; ++item) {
        const int64_t c = item / bins, k = item % bins;
        const auto bin = g.bin(regions.row(r), r, c, k / o[3], k % o[3]);
        const Acc each = point_grad<T, Acc>(g, bin, grad.as<T>()[r * o[1] * bins + item]) * unit;
        const T* image =
            data_ref.as<T>() + (regions.image(r) * data[1] + c * groups + bin.group) * plane;
        Acc* to = sum + bin.moved_class * 2 * g.parts() + bin.part;
        g.for_points(bin, [&](const cpu::Neighbours<Acc>& point) {
          Acc values[4] = {};
          point.add_products(image, each, values);
          to[0] += point.by_x(values) * bin.size_x;
          to[g.parts()] += point.by_y(values) * bin.size_y;
        });
      }
      for (int64_t i = 0; i < size; ++i) target.as<T>()[r * size + i] = static_cast<T>(sum[i]);
    }
  });
}

// `in`: output_grad, data, rois, trans.
void pooling_backward_native(KernelContext& ctx, const DeformablePsRoiPoolingParams& p, Inputs in,
                             Outputs out) {
  const Shape& data = in[1].shape;
  dispatch_floating(kDeformablePsRoiPoolingOp, in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    const BinGeometry<T> g = geometry<T>(p, data, in.size() > 3 ? &in[3] : nullptr);
    const int64_t planes = p.group_size * p.group_size * data[2] * data[3];
    cpu::ScratchPlan plan;
    const size_t regions_at = plan.add<Acc>(in[2].size());
    const size_t sums_at =
        plan.add<Acc>(std::max(planes, g.classes * 2 * g.parts()) * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    const cpu::Regions<Acc> regions = cpu::read_regions(kDeformablePsRoiPoolingOp, in[2], data[0],
                                                        cpu::part<Acc>(block, regions_at));
    Acc* sums = cpu::part<Acc>(block, sums_at);
    data_gradient(g, regions, in[0], out[0], sums);
    if (out.size() > 1) trans_gradient(g, regions, in[0], in[1], out[1], sums);
  });
}

}  // namespace

static const Registration deformable_ps_roi_pooling_registration(
    Stage::kKernels, [](OpRegistry& ops) {
      ops.cpu_kernel<pooling_native>(kDeformablePsRoiPoolingOp, {.inline_ok = false});
      ops.cpu_kernel<pooling_backward_native>("_deformable_psroi_pooling_backward",
                                              {.inline_ok = false});
    });

}  // namespace mxlite
