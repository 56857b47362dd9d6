#include "cpp/ops/cpu/vision/regions.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite {
namespace {

constexpr const char* kRoiPoolingOp = "ROIPooling";

struct Range {
  int64_t begin, end;
};

// Finds the pixels of every bin of a region along one axis. The region includes its last pixel.
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

// Returns whether v replaces the best value so far. NaN counts as larger than all numbers.
template <class Acc>
bool is_better(Acc v, Acc best) {
  return (v > best) | ((v != v) & (best == best));
}

// Finds the largest value of each column of the given rows, and the first row that has it.
template <class T, class Acc>
void column_maxima(const T* plane, int64_t width, Range rows, Range columns, Acc* line,
                   int32_t* row_of) {
  const T* first = plane + rows.begin * width;
  for (int64_t x = columns.begin; x < columns.end; ++x) {
    line[x] = static_cast<Acc>(first[x]);
    row_of[x] = static_cast<int32_t>(rows.begin);
  }
  for (int64_t y = rows.begin + 1; y < rows.end; ++y) {
    const T* from = plane + y * width;
    for (int64_t x = columns.begin; x < columns.end; ++x) {
      const Acc v = static_cast<Acc>(from[x]);
      const bool better = is_better(v, line[x]);
      line[x] = better ? v : line[x];
      row_of[x] = better ? static_cast<int32_t>(y) : row_of[x];
    }
  }
}

// Finds the largest value, and of equal values the first in memory order.
template <class T, class Acc>
void find_max(const Acc* line, const int32_t* row_of, int64_t width, Range columns, T* value,
              int32_t* position) {
  int64_t at = columns.begin;
  for (int64_t x = columns.begin + 1; x < columns.end; ++x) {
    const bool better = is_better(line[x], line[at]);
    const bool earlier = (line[x] == line[at]) & (row_of[x] < row_of[at]);
    at = better | earlier ? x : at;
  }
  *value = static_cast<T>(line[at]);
  *position = static_cast<int32_t>(row_of[at] * width + at);
}

// Processes one channel of one region. `line` and `row_of` have room for one row of data.
template <class T, class Acc>
void pool_plane(const T* plane, const Shape& data, const PixelAxis<Acc>& y, const PixelAxis<Acc>& x,
                int64_t bins_h, int64_t bins_w, Acc* line, int32_t* row_of, T* value,
                int32_t* position) {
  const Range all{x.range(0, data[3]).begin, x.range(bins_w - 1, data[3]).end};
  for (int64_t i = 0; i < bins_h; ++i) {
    const Range rows = y.range(i, data[2]);
    if (rows.begin < rows.end) column_maxima(plane, data[3], rows, all, line, row_of);
    for (int64_t j = 0; j < bins_w; ++j, ++value, ++position) {
      const Range columns = x.range(j, data[3]);
      if (rows.begin < rows.end && columns.begin < columns.end) {
        find_max(line, row_of, data[3], columns, value, position);
      } else {
        *value = static_cast<T>(Acc(0));
        *position = -1;
      }
    }
  }
}

void roi_pooling_native(KernelContext& ctx, const RoiPoolingParams& p, Inputs in, Outputs out) {
  const Shape &data = in[0].shape, &o = out[0].shape;
  dispatch_floating(kRoiPoolingOp, in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::ScratchPlan plan;
    const size_t regions_at = plan.add<Acc>(in[1].size());
    const size_t lines_at = plan.add<Acc>(data[3] * cpu_threads());
    const size_t rows_at = plan.add<int32_t>(data[3] * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    const cpu::Regions<Acc> regions =
        cpu::read_regions(kRoiPoolingOp, in[1], data[0], cpu::part<Acc>(block, regions_at));
    const int64_t bins = o[2] * o[3];
    cpu::parallel_ranges(
        regions.count * data[1], bins * 16, [&](int64_t begin, int64_t end, int t) {
          Acc* line = cpu::part<Acc>(block, lines_at) + t * data[3];
          int32_t* row_of = cpu::part<int32_t>(block, rows_at) + t * data[3];
          for (int64_t item = begin; item < end; ++item) {
            const int64_t r = item / data[1], c = item % data[1];
            T* value = out[0].as<T>() + item * bins;
            int32_t* position = out[1].as<int32_t>() + item * bins;
            if (regions.ignored(r) || !regions.finite(r)) {
              const Acc fill = regions.ignored(r) ? Acc(0) : std::numeric_limits<Acc>::quiet_NaN();
              std::fill_n(value, bins, static_cast<T>(fill));
              std::fill_n(position, bins, -1);
              continue;
            }
            const T* plane = in[0].as<T>() + (regions.image(r) * data[1] + c) * data[2] * data[3];
            const Acc* box = regions.row(r);
            const Acc scale = static_cast<Acc>(p.spatial_scale);
            const PixelAxis<Acc> x(box[1], box[3], scale, o[3]), y(box[2], box[4], scale, o[2]);
            pool_plane(plane, data, y, x, o[2], o[3], line, row_of, value, position);
          }
        });
  });
}

void roi_pooling_backward_native(KernelContext& ctx, const RoiGradParams<RoiPoolingParams>& p,
                                 Inputs in, Outputs out) {
  const Shape &data = p.data_shape, &o = in[0].shape;
  const int64_t plane = data[2] * data[3], bins = o[2] * o[3];
  dispatch_floating(kRoiPoolingOp, in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::ScratchPlan plan;
    const size_t regions_at = plan.add<Acc>(in[1].size());
    const size_t sums_at = plan.add<Acc>(plane * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    const cpu::Regions<Acc> regions =
        cpu::read_regions(kRoiPoolingOp, in[1], data[0], cpu::part<Acc>(block, regions_at));
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

static const Registration roi_pooling_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<roi_pooling_native>(kRoiPoolingOp, {.inline_ok = false});
  ops.cpu_kernel<roi_pooling_backward_native>("_roi_pooling_backward", {.inline_ok = false});
});

}  // namespace mxlite
