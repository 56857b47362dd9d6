#include "cpp/ops/cpu/vision/regions.h"
#include "cpp/ops/op_schema.h"
#include "cpp/ops/vision/register.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite {
namespace {

constexpr const char* kOp = "ROIPooling";

struct Range {
  int64_t begin, end;
};

// The pixels of every bin of a region along one axis, end included.
template <class Acc>
struct PixelAxis {
  int64_t start;
  Acc bin;

  PixelAxis(Acc from, Acc to, Acc scale, int64_t bins) {
    constexpr int64_t kFar = int64_t{1} << 40;
    start = cpu::clamp_index(std::round(from * scale), -kFar, kFar);
    const int64_t last = cpu::clamp_index(std::round(to * scale), -kFar, kFar);
    bin = static_cast<Acc>(std::max<int64_t>(last - start + 1, 1)) / static_cast<Acc>(bins);
  }
  Range range(int64_t b, int64_t size) const {
    const auto low = static_cast<int64_t>(std::floor(static_cast<Acc>(b) * bin));
    const auto high = static_cast<int64_t>(std::ceil(static_cast<Acc>(b + 1) * bin));
    return {std::clamp<int64_t>(low + start, 0, size), std::clamp<int64_t>(high + start, 0, size)};
  }
};

// First of the largest values; NaN is larger than all others.
template <class T>
void find_max(const T* plane, int64_t width, Range rows, Range columns, T* value,
              int32_t* position) {
  using Acc = ComputeType<T>;
  *value = static_cast<T>(Acc(0));
  *position = -1;
  if (rows.begin >= rows.end || columns.begin >= columns.end) return;
  int64_t best_at = rows.begin * width + columns.begin;
  Acc best = static_cast<Acc>(plane[best_at]);
  for (int64_t y = rows.begin; y < rows.end; ++y)
    for (int64_t at = y * width + columns.begin; at < y * width + columns.end; ++at) {
      const Acc v = static_cast<Acc>(plane[at]);
      if (v > best || (v != v && best == best)) {
        best = v;
        best_at = at;
      }
    }
  *value = plane[best_at];
  *position = static_cast<int32_t>(best_at);
}

void roi_pooling_native(KernelContext& ctx, const RoiPoolingParams& p, Inputs in, Outputs out) {
  const Shape &data = in[0].shape, &o = out[0].shape;
  dispatch_floating(kOp, in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    Acc* buffer = static_cast<Acc*>(ctx.scratch(static_cast<size_t>(in[1].size()) * sizeof(Acc)));
    const cpu::Regions<Acc> regions = cpu::read_regions(kOp, in[1], data[0], buffer);
    const int64_t bins = o[2] * o[3];
    cpu::parallel_for(regions.count * data[1], bins * 16, [&](int64_t item) {
      const int64_t r = item / data[1], c = item % data[1];
      T* value = out[0].as<T>() + item * bins;
      int32_t* position = out[1].as<int32_t>() + item * bins;
      if (regions.ignored(r) || !regions.finite(r)) {
        const Acc fill = regions.ignored(r) ? Acc(0) : std::numeric_limits<Acc>::quiet_NaN();
        std::fill_n(value, bins, static_cast<T>(fill));
        std::fill_n(position, bins, -1);
        return;
      }
      const T* plane = in[0].as<T>() + (regions.image(r) * data[1] + c) * data[2] * data[3];
      const Acc* box = regions.row(r);
      const Acc scale = static_cast<Acc>(p.spatial_scale);
      const PixelAxis<Acc> x(box[1], box[3], scale, o[3]), y(box[2], box[4], scale, o[2]);
      for (int64_t i = 0; i < o[2]; ++i)
        for (int64_t j = 0; j < o[3]; ++j, ++value, ++position)
          find_max(plane, data[3], y.range(i, data[2]), x.range(j, data[3]), value, position);
    });
  });
}

void roi_pooling_backward_native(KernelContext& ctx, const RoiGradParams<RoiPoolingParams>& p,
                                 Inputs in, Outputs out) {
  const Shape &data = p.data_shape, &o = in[0].shape;
  const int64_t plane = data[2] * data[3], bins = o[2] * o[3];
  dispatch_floating(kOp, in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::ScratchPlan plan;
    const size_t regions_at = plan.add<Acc>(in[1].size());
    const size_t sums_at = plan.add<Acc>(plane * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    const cpu::Regions<Acc> regions =
        cpu::read_regions(kOp, in[1], data[0], cpu::part<Acc>(block, regions_at));
    const int32_t* positions = in[2].as<int32_t>();
    const int64_t work = plane + regions.count * bins / std::max<int64_t>(data[0], 1);
    cpu::parallel_ranges(data[0] * data[1], work, [&](int64_t begin, int64_t end, int thread) {
      Acc* sum = cpu::part<Acc>(block, sums_at) + thread * plane;
      for (int64_t item = begin; item < end; ++item) {
        std::fill_n(sum, plane, Acc(0));
        for (int64_t r = 0; r < regions.count; ++r) {
          if (regions.ignored(r) || regions.image(r) != item / data[1]) continue;
          const int64_t at = (r * data[1] + item % data[1]) * bins;
          for (int64_t b = at; b < at + bins; ++b)
            if (positions[b] >= 0) sum[positions[b]] += static_cast<Acc>(in[0].as<T>()[b]);
        }
        T* target = out[0].as<T>() + item * plane;
        for (int64_t i = 0; i < plane; ++i) target[i] = static_cast<T>(sum[i]);
      }
    });
  });
}

}  // namespace

void register_roi_pooling_cpu(OpRegistry& ops) {
  constexpr DeviceType kCPU = DeviceType::kCPU;
  ops.kernel<roi_pooling_native>(kOp, kCPU, {.inline_ok = false});
  ops.kernel<roi_pooling_backward_native>("_roi_pooling_backward", kCPU, {.inline_ok = false});
}

}  // namespace mxlite
