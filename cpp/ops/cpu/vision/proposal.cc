#include <algorithm>

#include "cpp/ops/cpu/ordering.h"
#include "cpp/ops/cpu/vision/suppression.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/proposal_rules.h"

namespace mxlite {
namespace {

using cpu::Candidate;
using cpu::KeptBoxes;
using proposal::ImageInfo;
using proposal::Region;

struct Grid {
  int64_t num_anchors, height, width;
  int64_t positions() const { return height * width; }
  int64_t count() const { return num_anchors * positions(); }
};

template <class T>
ImageInfo<ComputeType<T>> image_info(const ProposalParams& p, const T* info) {
  using Acc = ComputeType<T>;
  return {p.feature_stride, static_cast<Acc>(info[0]), static_cast<Acc>(info[1]),
          static_cast<Acc>(info[2])};
}

// Computes all boxes of one image in the order (row, column, anchor).
template <class T>
void predict_all(const ProposalParams& p, const Grid& grid, const T* scores, const T* offsets,
                 const ImageInfo<ComputeType<T>>& image, Region<ComputeType<T>>* boxes) {
  using Acc = ComputeType<T>;
  const int64_t step = grid.positions();
  cpu::parallel_for(grid.num_anchors * grid.height, grid.width * 16, [&](int64_t i) {
    const int64_t kind = i / grid.height, row = i % grid.height;
    const Region<Acc> base = proposal::base_anchor<Acc>(p, kind);
    for (int64_t column = 0; column < grid.width; ++column) {
      const int64_t place = row * grid.width + column;
      const T* const o = offsets + 4 * kind * step + place;
      const proposal::Offsets<Acc> moved{static_cast<Acc>(o[0]), static_cast<Acc>(o[step]),
                                         static_cast<Acc>(o[2 * step]),
                                         static_cast<Acc>(o[3 * step])};
      boxes[place * grid.num_anchors + kind] =
          proposal::propose(base, p.iou_loss, p.feature_stride, p.rpn_min_size, row, column, moved,
                            static_cast<Acc>(scores[kind * step + place]), image);
    }
  });
}

// Memory of one thread for one image.
template <class T>
struct ProposalImageMemory {
  size_t boxes, entries, room, kept, kept_index, bytes;
  ProposalImageMemory(int64_t count, int64_t regions) {
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

// Finds the indices of the boxes that remain, best first. Returns their number.
template <class Acc>
int64_t suppress_proposals(const ProposalParams& p, const Region<Acc>* boxes,
                           const cpu::EntryOf<Acc>* sorted, int64_t count, KeptBoxes<Acc> kept,
                           int64_t* kept_index) {
  const float threshold = p.threshold;
  for (int64_t i = 0; i < count && kept.size() < p.rpn_post_nms_top_n; ++i) {
    const Region<Acc>& r = boxes[sorted[i].index()];
    const Candidate<Acc> candidate{
        r.left, r.top, r.right, r.bottom, (r.right - r.left + 1) * (r.bottom - r.top + 1), 0};
    const bool drop = kept.any(candidate, [=](const Candidate<Acc>& a, const Candidate<Acc>& b) {
      return proposal::overlap<Acc>(a, b) > threshold;
    });
    if (drop) continue;
    kept_index[kept.size()] = sorted[i].index();
    kept.push_back(candidate);
  }
  return kept.size();
}

template <class T>
void propose_image(const ProposalParams& p, const Grid& grid, Inputs in, int64_t image,
                   const ProposalImageMemory<T>& memory, std::byte* block, Outputs out) {
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
  const int64_t kept = suppress_proposals(
      p, boxes, sorted, compared, {cpu::part<std::byte>(block, memory.kept), wanted}, kept_index);
  for (int64_t i = 0; i < wanted; ++i) {
    const Region<Acc>& r = boxes[kept_index[i % kept]];
    const Acc values[5] = {static_cast<Acc>(image), r.left, r.top, r.right, r.bottom};
    T* const row = out[0].as<T>() + (image * wanted + i) * 5;
    for (int k = 0; k < 5; ++k) row[k] = static_cast<T>(values[k]);
    out[1].as<T>()[image * wanted + i] = static_cast<T>(r.score);
  }
}

template <class T>
void propose(const char* op, KernelContext& ctx, const ProposalParams& p, Inputs in, Outputs out) {
  const Shape& cls = in[0].shape;
  const Grid grid{cls[1] / 2, cls[2], cls[3]};
  for (int64_t i = 0; i < cls[0]; ++i) {
    const auto image = image_info(p, in[2].as<T>() + 3 * i);
    MX_CHECK(image.rows <= grid.height && image.columns <= grid.width, op,
             ": im_info must be an image within the ", grid.height, " x ", grid.width,
             " positions of stride ", p.feature_stride, ", got ", image.height, " x ", image.width,
             " pixels");
  }
  const ProposalImageMemory<T> memory(grid.count(), p.rpn_post_nms_top_n);
  const auto threads = static_cast<size_t>(std::min<int64_t>(cpu_threads(), cls[0]));
  auto* const block = static_cast<std::byte*>(ctx.scratch(memory.bytes * threads));
  cpu::parallel_ranges(cls[0], grid.count() * 64, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i)
      propose_image<T>(p, grid, in, i, memory, block + memory.bytes * static_cast<size_t>(thread),
                       out);
  });
}

template <bool kMulti>
void proposal_native(KernelContext& ctx, const ProposalParams& p, Inputs in, Outputs out) {
  const char* const op = kMulti ? "MultiProposal" : "Proposal";
  dispatch_floating(op, out[0].dtype, [&]<class T>(T) { propose<T>(op, ctx, p, in, out); });
}

}  // namespace

static const Registration proposal_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&proposal_native<false>>("_contrib_Proposal", kWorkerOnly);
  ops.cpu_kernel<&proposal_native<true>>("_contrib_MultiProposal", kWorkerOnly);
});

}  // namespace mxlite
