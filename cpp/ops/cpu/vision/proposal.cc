// Boxes are in pixels and include their last row and column: a box from 3 to 3 has width 1.
#include "cpp/ops/vision/proposal.h"

#include <algorithm>
#include <cmath>

#include "cpp/ops/cpu/ordering.h"
#include "cpp/ops/cpu/vision/suppression.h"
#include "cpp/ops/op_schema.h"
#include "cpp/ops/vision/register.h"

namespace mxlite {
namespace {

using cpu::Candidate;
using cpu::KeptBoxes;

template <class Acc>
struct Region {
  Acc left, top, right, bottom, score;
};

// Sums and halves are rounded once, from double, as 1.x does.
template <class Acc>
struct Span {
  Acc length, middle;
  Span(Acc low, Acc high)
      : length(static_cast<Acc>(static_cast<double>(high - low) + 1.0)),
        middle(static_cast<Acc>(low + 0.5 * (length - 1.0))) {}
};
template <class Acc>
Acc moved(Acc middle, double direction, Acc length) {
  return static_cast<Acc>(middle + direction * 0.5 * (length - 1.0));
}

// Anchor `kind` at the first position. Its sides are whole numbers of pixels before scaling.
template <class Acc>
Region<Acc> base_anchor(const ProposalParams& p, int64_t kind) {
  const auto num_scales = static_cast<int64_t>(p.scales.size());
  const Acc ratio = static_cast<Acc>(p.ratios[static_cast<size_t>(kind / num_scales)]);
  const Acc scale = static_cast<Acc>(p.scales[static_cast<size_t>(kind % num_scales)]);
  const auto stride = static_cast<Acc>(p.feature_stride);
  const Acc width = std::floor(std::sqrt(std::floor(stride * stride / ratio)) + Acc(0.5)) * scale;
  const Acc height = std::floor(width / scale * ratio + Acc(0.5)) * scale;
  const Acc middle = (stride - 1) / 2;
  const Acc half_width = (width - 1) / 2, half_height = (height - 1) / 2;
  return {middle - half_width, middle - half_height, middle + half_width, middle + half_height, 0};
}

struct Grid {
  int64_t num_anchors, height, width;
  int64_t positions() const { return height * width; }
  int64_t count() const { return num_anchors * positions(); }
};

// im_info of one image.
template <class Acc>
struct ImageInfo {
  Acc height, width, scale;
  int64_t rows, columns;  // positions inside the image; the others are padding
};

template <class T>
ImageInfo<ComputeType<T>> image_info(const ProposalParams& p, const T* info) {
  using Acc = ComputeType<T>;
  const Acc height = static_cast<Acc>(info[0]), width = static_cast<Acc>(info[1]);
  const auto positions = [&](Acc pixels) {  // 0 for NaN; one beyond any grid is enough
    const Acc n = pixels / static_cast<Acc>(p.feature_stride);
    return n >= 1 ? static_cast<int64_t>(std::min(n, Acc(1 << 30))) : int64_t{0};
  };
  return {height, width, static_cast<Acc>(info[2]), positions(height), positions(width)};
}

// The box that the network predicts for `anchor`, cut at the border of the image.
template <class T>
Region<ComputeType<T>> predict(const ProposalParams& p, const Region<ComputeType<T>>& anchor,
                               const T* offset, int64_t step,
                               const ImageInfo<ComputeType<T>>& image) {
  using Acc = ComputeType<T>;
  const Acc x = static_cast<Acc>(offset[0]), y = static_cast<Acc>(offset[step]);
  const Acc z = static_cast<Acc>(offset[2 * step]), w = static_cast<Acc>(offset[3 * step]);
  Region<Acc> box;
  if (p.iou_loss) {
    box = {anchor.left + x, anchor.top + y, anchor.right + z, anchor.bottom + w, 0};
  } else {
    const Span<Acc> horizontal(anchor.left, anchor.right), vertical(anchor.top, anchor.bottom);
    const Acc middle_x = x * horizontal.length + horizontal.middle;
    const Acc middle_y = y * vertical.length + vertical.middle;
    const Acc width = std::exp(z) * horizontal.length, height = std::exp(w) * vertical.length;
    box = {moved(middle_x, -1, width), moved(middle_y, -1, height), moved(middle_x, 1, width),
           moved(middle_y, 1, height), 0};
  }
  const auto inside = [](Acc value, Acc size) {
    return std::max(std::min(value, size - 1), Acc(0));
  };
  return {inside(box.left, image.width), inside(box.top, image.height),
          inside(box.right, image.width), inside(box.bottom, image.height), 0};
}

// All boxes of one image in the order (row, column, anchor). Padding and small boxes get score -1,
// small ones grow on all sides.
template <class T>
void predict_all(const ProposalParams& p, const Grid& grid, const T* scores, const T* offsets,
                 const ImageInfo<ComputeType<T>>& image, Region<ComputeType<T>>* boxes) {
  using Acc = ComputeType<T>;
  const Acc least = static_cast<Acc>(p.rpn_min_size) * image.scale;
  const int64_t step = grid.positions();
  cpu::parallel_for(grid.num_anchors * grid.height, grid.width * 16, [&](int64_t i) {
    const int64_t kind = i / grid.height, row = i % grid.height;
    const Region<Acc> base = base_anchor<Acc>(p, kind);
    for (int64_t column = 0; column < grid.width; ++column) {
      const int64_t place = row * grid.width + column;
      const Acc x = static_cast<Acc>(column * p.feature_stride);
      const Acc y = static_cast<Acc>(row * p.feature_stride);
      const Region<Acc> anchor{base.left + x, base.top + y, base.right + x, base.bottom + y, 0};
      Region<Acc> box = predict(p, anchor, offsets + 4 * kind * step + place, step, image);
      box.score = static_cast<Acc>(scores[kind * step + place]);
      if (row >= image.rows || column >= image.columns) box.score = -1;
      if (box.right - box.left + 1 < least || box.bottom - box.top + 1 < least)
        box = {box.left - least / 2, box.top - least / 2, box.right + least / 2,
               box.bottom + least / 2, -1};
      boxes[place * grid.num_anchors + kind] = box;
    }
  });
}

// What one thread needs for one image.
template <class T>
struct ImageMemory {
  size_t boxes, entries, room, kept, kept_index, bytes;
  ImageMemory(int64_t count, int64_t regions) {
    using Acc = ComputeType<T>;
    cpu::ScratchPlan plan;
    boxes = plan.add<Region<Acc>>(count);
    entries = plan.add<cpu::EntryOf<Acc>>(count);
    room = plan.add<cpu::EntryOf<Acc>>(count);
    kept = plan.add(KeptBoxes<Acc>::bytes(regions));
    kept_index = plan.add<int64_t>(regions);
    bytes = plan.bytes();
  }
};

// Indices of the boxes that remain, best first; returns how many.
template <class Acc>
int64_t suppress(const ProposalParams& p, const Region<Acc>* boxes, const cpu::EntryOf<Acc>* sorted,
                 int64_t count, KeptBoxes<Acc> kept, int64_t* kept_index) {
  const float threshold = p.threshold;
  for (int64_t i = 0; i < count && kept.size() < p.rpn_post_nms_top_n; ++i) {
    const Region<Acc>& r = boxes[sorted[i].index()];
    const Candidate<Acc> candidate{
        r.left, r.top, r.right, r.bottom, (r.right - r.left + 1) * (r.bottom - r.top + 1), 0};
    const bool drop = kept.any(candidate, [=](const Candidate<Acc>& a, const Candidate<Acc>& b) {
      const Acc width = std::min(a.right, b.right) - std::max(a.left, b.left) + 1;
      const Acc height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top) + 1;
      const Acc common = std::max(Acc(0), width) * std::max(Acc(0), height);
      return common / (a.area + b.area - common) > threshold;
    });
    if (drop) continue;
    kept_index[kept.size()] = sorted[i].index();
    kept.push_back(candidate);
  }
  return kept.size();
}

template <class T>
void propose_image(const ProposalParams& p, const Grid& grid, Inputs in, int64_t image,
                   const ImageMemory<T>& memory, std::byte* block, Outputs out) {
  using Acc = ComputeType<T>;
  using Entry = cpu::EntryOf<Acc>;
  auto* const boxes = cpu::part<Region<Acc>>(block, memory.boxes);
  auto* const entries = cpu::part<Entry>(block, memory.entries);
  auto* const kept_index = cpu::part<int64_t>(block, memory.kept_index);
  const int64_t count = grid.count(), wanted = p.rpn_post_nms_top_n;
  predict_all(p, grid, in[0].as<T>() + (2 * image + 1) * count, in[1].as<T>() + 4 * image * count,
              image_info(p, in[2].as<T>() + 3 * image), boxes);
  for (int64_t i = 0; i < count; ++i) entries[i] = Entry::make(cpu::falling_key(boxes[i].score), i);
  const int64_t limit = p.rpn_pre_nms_top_n;
  const int64_t compared = limit > 0 ? std::min(limit, count) : count;
  const Entry* const sorted =
      cpu::sort_first(entries, cpu::part<Entry>(block, memory.room), count, compared);
  const int64_t kept = suppress(p, boxes, sorted, compared,
                                {cpu::part<std::byte>(block, memory.kept), wanted}, kept_index);
  for (int64_t i = 0; i < wanted; ++i) {
    const Region<Acc>& r = boxes[kept_index[i % kept]];
    const Acc values[5] = {static_cast<Acc>(image), r.left, r.top, r.right, r.bottom};
    T* const row = out[0].as<T>() + (image * wanted + i) * 5;
    for (int k = 0; k < 5; ++k) row[k] = static_cast<T>(values[k]);
    out[1].as<T>()[image * wanted + i] = static_cast<T>(r.score);
  }
}

template <class T>
void propose(KernelContext& ctx, const ProposalParams& p, Inputs in, Outputs out) {
  const Shape& cls = in[0].shape;
  const Grid grid{cls[1] / 2, cls[2], cls[3]};
  for (int64_t i = 0; i < cls[0]; ++i) {
    const auto image = image_info(p, in[2].as<T>() + 3 * i);
    MX_CHECK(image.rows <= grid.height && image.columns <= grid.width, "Proposal: im_info says ",
             image.height, " x ", image.width, " pixels, more than ", grid.height, " x ",
             grid.width, " positions of stride ", p.feature_stride);
  }
  const ImageMemory<T> memory(grid.count(), p.rpn_post_nms_top_n);
  const auto threads = static_cast<size_t>(std::min<int64_t>(cpu_threads(), cls[0]));
  auto* const block = static_cast<std::byte*>(ctx.scratch(memory.bytes * threads));
  cpu::parallel_ranges(cls[0], grid.count() * 64, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i)
      propose_image<T>(p, grid, in, i, memory, block + memory.bytes * static_cast<size_t>(thread),
                       out);
  });
}

void proposal_native(KernelContext& ctx, const ProposalParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  dispatch_floating("_contrib_Proposal", out[0].dtype,
                    [&]<class T>(T) { propose<T>(ctx, p, in, out); });
}

}  // namespace

void register_proposal_cpu(OpRegistry& ops) {
  const Kernel costly{.inline_ok = false};
  ops.kernel<&proposal_native>("_contrib_Proposal", DeviceType::kCPU, costly);
  ops.kernel<&proposal_native>("_contrib_MultiProposal", DeviceType::kCPU, costly);
}

}  // namespace mxlite
