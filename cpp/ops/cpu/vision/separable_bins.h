// Pooling over regions whose bins are products of weights for rows and weights for columns: out[c,
// i, j] = scale * sum over y, x of rows[i][y] * columns[j][x] * data[c, y, x]. The weights are
// computed once per region and used for all of its channels.
#pragma once
#include <limits>

#include "cpp/ops/cpu/vision/regions.h"

namespace mxlite::cpu {

// Sparse weights of the bins of one region along one axis, built bin by bin in order of lines.
template <class Acc>
class AxisBins {
 public:
  struct Entry {
    int64_t line;
    Acc weight;
  };
  static size_t bytes(int64_t bins, int64_t size) {
    return static_cast<size_t>(bins * size) * sizeof(Entry) +
           static_cast<size_t>(bins + 1) * sizeof(int64_t);
  }
  AxisBins(void* memory, int64_t bins)
      : end_(static_cast<int64_t*>(memory)), entries_(reinterpret_cast<Entry*>(end_ + bins + 1)) {
    end_[0] = 0;
  }

  void add(int64_t line, Acc weight) {
    if (weight == Acc(0)) return;
    int64_t& last = end_[bins_ + 1];
    // Samples advance monotonically, so only the last two lines can occur again.
    for (int64_t i = last - 1; i >= std::max(end_[bins_], last - 2); --i)
      if (entries_[i].line == line) {
        entries_[i].weight += weight;
        return;
      }
    entries_[last++] = {line, weight};
    first_line_ = std::min(first_line_, line);
    last_line_ = std::max(last_line_, line);
  }
  void begin_bin() { end_[bins_ + 1] = end_[bins_]; }
  void end_bin() { ++bins_; }

  std::span<const Entry> bin(int64_t b) const {
    return {entries_ + end_[b], static_cast<size_t>(end_[b + 1] - end_[b])};
  }
  // Return the range [first, past) of lines that the bins use.
  int64_t first() const { return last_line_ < 0 ? 0 : first_line_; }
  int64_t past() const { return last_line_ + 1; }

 private:
  int64_t* end_;  // bin b has entries [end_[b], end_[b + 1])
  Entry* entries_;
  int64_t bins_ = 0, first_line_ = std::numeric_limits<int64_t>::max(), last_line_ = -1;
};

struct PoolShape {
  int64_t channels, height, width;  // size of one image
  int64_t out_channels, bins_h, bins_w;
  int64_t groups_h = 1, groups_w = 1;  // greater than 1 for position-sensitive pooling

  int64_t plane() const { return height * width; }
  int64_t bins() const { return bins_h * bins_w; }
  int64_t group_row(int64_t i) const { return i * groups_h / bins_h; }
  int64_t group_column(int64_t j) const { return j * groups_w / bins_w; }
  bool grouped() const { return groups_h * groups_w > 1; }
};

// Memory of a call: the regions, then one block per thread.
template <class Acc>
struct PoolScratch {
  static constexpr int64_t kPlanes = 8;  // number of channels that a thread accumulates at a time
  PoolScratch(KernelContext& ctx, const PoolShape& q, const TensorRef& rois, bool planes)
      : shape(q) {
    const size_t regions_at = plan.add<Acc>(rois.size());
    rows_at = thread_plan.add(AxisBins<Acc>::bytes(q.bins_h, q.height));
    columns_at = thread_plan.add(AxisBins<Acc>::bytes(q.bins_w, q.width));
    line_at = thread_plan.add<Acc>(q.width);
    planes_at = thread_plan.add<Acc>(planes ? kPlanes * q.plane() : 0);
    threads_at = plan.add(thread_plan.bytes() * static_cast<size_t>(cpu_threads()));
    block = ctx.scratch(plan.bytes());
    regions = part<Acc>(block, regions_at);
  }
  void* of_thread(int thread) const {
    return part<char>(block, threads_at) + thread_plan.bytes() * static_cast<size_t>(thread);
  }
  AxisBins<Acc> rows(int t) const { return {part<char>(of_thread(t), rows_at), shape.bins_h}; }
  AxisBins<Acc> columns(int t) const {
    return {part<char>(of_thread(t), columns_at), shape.bins_w};
  }
  Acc* line(int t) const { return part<Acc>(of_thread(t), line_at); }
  Acc* planes(int t) const { return part<Acc>(of_thread(t), planes_at); }

  PoolShape shape;
  ScratchPlan plan, thread_plan;
  size_t rows_at, columns_at, line_at, planes_at, threads_at;
  void* block;
  Acc* regions;
};

// Computes one output channel of one region. `data` is the first plane of that channel.
template <class T, class Acc>
void pool_channel(const PoolShape& q, const AxisBins<Acc>& rows, const AxisBins<Acc>& columns,
                  Acc scale, const T* data, Acc* line, T* out) {
  for (int64_t i = 0; i < q.bins_h; ++i) {
    if (q.grouped()) {
      for (int64_t j = 0; j < q.bins_w; ++j) {
        const T* plane = data + (q.group_row(i) * q.groups_w + q.group_column(j)) * q.plane();
        Acc sum = 0;
        for (const auto& [y, row_weight] : rows.bin(i)) {
          Acc row = 0;
          for (const auto& [x, weight] : columns.bin(j))
            row += weight * static_cast<Acc>(plane[y * q.width + x]);
          sum += row_weight * row;
        }
        out[i * q.bins_w + j] = static_cast<T>(sum * scale);
      }
      continue;
    }
    // The bins of a row share the sum over rows.
    std::fill(line + columns.first(), line + columns.past(), Acc(0));
    for (const auto& [y, weight] : rows.bin(i)) {
      const T* from = data + y * q.width;
      for (int64_t x = columns.first(); x < columns.past(); ++x)
        line[x] += weight * static_cast<Acc>(from[x]);
    }
    for (int64_t j = 0; j < q.bins_w; ++j) {
      Acc sum = 0;
      for (const auto& [x, weight] : columns.bin(j)) sum += weight * line[x];
      out[i * q.bins_w + j] = static_cast<T>(sum * scale);
    }
  }
}

// fill(region, rows, columns) computes the weights and returns the scale.
template <class T, class Fill>
void pool_regions(KernelContext& ctx, const char* op, const PoolShape& q, Inputs in,
                  const TensorRef& out, Fill&& fill) {
  using Acc = ComputeType<T>;
  const PoolScratch<Acc> scratch(ctx, q, in[1], /*planes=*/false);
  const Regions<Acc> regions = read_regions(op, in[1], in[0].shape[0], scratch.regions);
  if (out.size() == 0) return;
  // If there are few regions, their channels are divided, so that every thread has work.
  const int64_t parts = std::clamp<int64_t>(4 * cpu_threads() / regions.count, 1, q.out_channels);
  const int64_t image_size = q.channels * q.plane();
  const int64_t group_planes = q.groups_h * q.groups_w * q.plane();
  const int64_t work = q.out_channels * q.bins() * 16 / parts;
  parallel_ranges(regions.count * parts, work, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t r = item / parts, p = item % parts;
      const int64_t c0 = q.out_channels * p / parts, c1 = q.out_channels * (p + 1) / parts;
      T* target = out.as<T>() + r * q.out_channels * q.bins();
      if (regions.ignored(r) || !regions.finite(r)) {
        const Acc value = regions.ignored(r) ? Acc(0) : std::numeric_limits<Acc>::quiet_NaN();
        std::fill(target + c0 * q.bins(), target + c1 * q.bins(), static_cast<T>(value));
        continue;
      }
      AxisBins<Acc> rows = scratch.rows(thread), columns = scratch.columns(thread);
      const Acc scale = fill(regions.row(r), rows, columns);
      const T* image = in[0].as<T>() + regions.image(r) * image_size;
      for (int64_t c = c0; c < c1; ++c)
        pool_channel(q, rows, columns, scale, image + c * group_planes, scratch.line(thread),
                     target + c * q.bins());
    }
  });
}

// Adds the gradients of one region's bins to the plane of one input channel. `grad` belongs to the
// output channel that reads the plane; `group` is the plane's position among the planes that this
// output channel reads.
template <class T, class Acc>
void scatter_channel(const PoolShape& q, const AxisBins<Acc>& rows, const AxisBins<Acc>& columns,
                     Acc scale, const T* grad, int64_t group, Acc* line, Acc* plane) {
  const int64_t group_row = group / q.groups_w, group_column = group % q.groups_w;
  for (int64_t i = 0; i < q.bins_h; ++i) {
    if (q.group_row(i) != group_row || rows.bin(i).empty()) continue;
    std::fill(line + columns.first(), line + columns.past(), Acc(0));
    for (int64_t j = 0; j < q.bins_w; ++j) {
      if (q.group_column(j) != group_column) continue;
      const Acc value = static_cast<Acc>(grad[i * q.bins_w + j]) * scale;
      for (const auto& [x, weight] : columns.bin(j)) line[x] += weight * value;
    }
    for (const auto& [y, weight] : rows.bin(i))
      for (int64_t x = columns.first(); x < columns.past(); ++x)
        plane[y * q.width + x] += weight * line[x];
  }
}

// `in`: output_grad, rois. A thread processes whole planes of the gradient, with regions in a fixed
// order.
template <class T, class Fill>
void pool_regions_backward(KernelContext& ctx, const char* op, const PoolShape& q, Inputs in,
                           const TensorRef& data_grad, Fill&& fill) {
  using Acc = ComputeType<T>;
  const PoolScratch<Acc> scratch(ctx, q, in[1], /*planes=*/true);
  const int64_t batch = data_grad.shape[0], groups = q.groups_h * q.groups_w;
  const Regions<Acc> regions = read_regions(op, in[1], batch, scratch.regions);
  constexpr int64_t kPlanes = PoolScratch<Acc>::kPlanes;
  const int64_t blocks = (q.channels + kPlanes - 1) / kPlanes;
  const int64_t per_image = batch > 0 ? regions.count / batch + 1 : 0;
  const int64_t work = kPlanes * (q.plane() + per_image * q.bins() * 16 / groups);
  parallel_ranges(batch * blocks, work, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t n = item / blocks, c0 = item % blocks * kPlanes;
      const int64_t c1 = std::min(c0 + kPlanes, q.channels);
      Acc* planes = scratch.planes(thread);
      std::fill_n(planes, (c1 - c0) * q.plane(), Acc(0));
      for (int64_t r = 0; r < regions.count; ++r) {
        if (regions.ignored(r) || regions.image(r) != n || !regions.finite(r)) continue;
        AxisBins<Acc> rows = scratch.rows(thread), columns = scratch.columns(thread);
        const Acc scale = fill(regions.row(r), rows, columns);
        for (int64_t c = c0; c < c1; ++c)
          scatter_channel(q, rows, columns, scale,
                          in[0].as<T>() + (r * q.out_channels + c / groups) * q.bins(), c % groups,
                          scratch.line(thread), planes + (c - c0) * q.plane());
      }
      T* target = data_grad.as<T>() + (n * q.channels + c0) * q.plane();
      for (int64_t i = 0; i < (c1 - c0) * q.plane(); ++i) target[i] = static_cast<T>(planes[i]);
    }
  });
}

}  // namespace mxlite::cpu
