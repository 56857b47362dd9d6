#include "cpp/ops/cpu/reduce/plan.h"

#include <algorithm>

namespace mxlite::reduce {
namespace {

constexpr int64_t kChunkElements = 16 << 10;

}  // namespace

int64_t AxisList::total() const {
  int64_t n = 1;
  for (int i = 0; i < count; ++i) n *= size[i];
  return n;
}

int64_t AxisList::offset(int64_t index) const {
  if (count == 1) return index * stride[0];  // the common case needs no division
  int64_t offset = 0;
  for (int i = count - 1; i >= 0; --i) {
    offset += index % size[i] * stride[i];
    index /= size[i];
  }
  return offset;
}

ReducePlan make_plan(const TensorRef& in, const AxisMask& mask) {
  AxisList axes;
  bool reduced[Shape::kMaxNdim];
  for (int i = 0; i < in.shape.ndim(); ++i) {
    if (in.shape[i] == 1) continue;
    const int last = axes.count - 1;
    if (last >= 0 && reduced[last] == mask[i] && axes.stride[last] == in.strides[i] * in.shape[i]) {
      axes.size[last] *= in.shape[i];
      axes.stride[last] = in.strides[i];
      continue;
    }
    reduced[axes.count] = mask[i];
    axes.add(in.shape[i], in.strides[i]);
  }
  if (axes.count == 0) {
    reduced[0] = true;
    axes.add(1, 1);
  }
  ReducePlan plan;
  const int inner = axes.count - 1;
  plan.rows = reduced[inner];
  plan.run = axes.size[inner];
  plan.run_stride = axes.stride[inner];
  for (int i = 0; i < inner; ++i)
    (reduced[i] ? plan.reduced : plan.kept).add(axes.size[i], axes.stride[i]);
  if (plan.rows) {
    plan.pieces = (plan.run + kRun - 1) / kRun;
    plan.units = plan.kept.total();
    plan.steps = plan.reduced.total() * plan.pieces;
  } else {
    // For example, (100000, 3) reduced over axis 0 is read in runs of 170 rows.
    AxisList& outer = plan.reduced;
    const int last = outer.count - 1;
    if (plan.run <= kTile / 4 && last >= 0 && plan.run_stride == 1 &&
        outer.stride[last] == plan.run && outer.size[last] >= 4) {
      plan.fold = std::min(kTile / plan.run, outer.size[last]);
    }
    plan.pieces = (plan.run + kTile - 1) / kTile;
    plan.units = plan.kept.total() * plan.pieces;
    plan.steps = outer.total();
  }
  const int64_t work = plan.steps * (plan.rows ? std::min(plan.run, kRun) : plan.width());
  if (plan.units < 2 * kMaxChunks && work > kChunkElements && plan.steps > 1)
    plan.chunks = std::min({kMaxChunks, plan.steps, work / kChunkElements + 1});
  return plan;
}

}  // namespace mxlite::reduce
