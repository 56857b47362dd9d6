#include "cpp/ops/cuda/vision/suppression.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/proposal_rules.h"

namespace mxlite::cuda {
namespace {

using mxlite::proposal::ImageInfo;
using mxlite::proposal::Offsets;
using mxlite::proposal::Region;

// The number of kinds of anchors that fit into the arguments of a kernel.
constexpr int64_t kAnchors = 32;
template <class C>
struct Anchors {
  Region<C> base[kAnchors];
  int64_t first, count;  // range among all kinds
};

struct ProposalArgs {
  const void *scores, *offsets, *info;
  void *out, *out_scores;
  DType dtype;
  int64_t first_image, images;  // range of images that this pass processes
  int64_t kinds, height, width, limit, wanted, padded;
  int feature_stride, min_size;
  float threshold;
  bool iou_loss;
  void* regions;  // regions of the pass, in the order (row, column, anchor)
  Ranked* entries;
  MX_HOST_DEVICE int64_t positions() const { return height * width; }
  MX_HOST_DEVICE int64_t count() const { return kinds * positions(); }
};

template <class C>
__global__ void predict_regions(int64_t n, const __grid_constant__ ProposalArgs a,
                                const __grid_constant__ Anchors<C> anchors) {
  const int64_t step = a.positions(), count = a.count();
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t place = i % step, kind = i / step % anchors.count;
    const int64_t own = i / step / anchors.count, image = a.first_image + own;
    const int64_t all = anchors.first + kind;
    const auto info = [&](int64_t k) { return load_as<C>(a.info, a.dtype, 3 * image + k); };
    const ImageInfo<C> pixels(a.feature_stride, info(0), info(1), info(2));
    const auto offset = [&](int64_t k) {
      return load_as<C>(a.offsets, a.dtype, 4 * image * count + (4 * all + k) * step + place);
    };
    const Offsets<C> offsets{offset(0), offset(1), offset(2), offset(3)};
    const C score = load_as<C>(a.scores, a.dtype, (2 * image + 1) * count + all * step + place);
    static_cast<Region<C>*>(a.regions)[own * count + place * a.kinds + all] =
        mxlite::proposal::propose(anchors.base[kind], a.iou_loss, a.feature_stride, a.min_size,
                                  place / a.width, place % a.width, offsets, score, pixels);
  }
}

template <class C>
__global__ void rank_regions(int64_t n, const __grid_constant__ ProposalArgs a) {
  const auto* const regions = static_cast<const Region<C>*>(a.regions);
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t image = at / a.padded, i = at % a.padded;
    Ranked entry{kLastKey, i};
    if (i < a.count())
      entry.key = falling_key(static_cast<double>(regions[image * a.count() + i].score));
    a.entries[at] = entry;
  }
}

template <class C>
__device__ const Region<C>& ranked_region(const ProposalArgs& a, int64_t image, int64_t i) {
  const auto* const regions = static_cast<const Region<C>*>(a.regions) + image * a.count();
  return regions[a.entries[image * a.padded + i].index];
}

template <class C>
__global__ void load_ranked(int64_t n, const __grid_constant__ ProposalArgs a,
                            const __grid_constant__ Suppression<C> s) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t image = at / a.limit, i = at % a.limit;
    if (i == 0) s.counts[image] = a.limit;
    const Region<C>& r = ranked_region<C>(a, image, i);
    s.boxes[at] = {
        r.left, r.top, r.right, r.bottom, (r.right - r.left + 1) * (r.bottom - r.top + 1), 0};
  }
}

template <class C>
struct DropsRegion {
  float threshold;
  __device__ bool operator()(const RankedBox<C>& best, const RankedBox<C>& later) const {
    return mxlite::proposal::overlap<C>(best, later) > threshold;
  }
};

// Writes the rows of kept regions, and repeats them in order if fewer than a.wanted are kept.
template <class C>
__global__ void write_regions(int64_t n, const __grid_constant__ ProposalArgs a,
                              const __grid_constant__ Suppression<C> s) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t image = at / a.limit, i = at % a.limit, place = s.place(image, i);
    if (place < 0 || place >= a.wanted) continue;
    const Region<C>& r = ranked_region<C>(a, image, i);
    const int64_t in_all = a.first_image + image;
    const C values[5] = {static_cast<C>(in_all), r.left, r.top, r.right, r.bottom};
    for (int64_t to = place; to < a.wanted; to += s.sizes[image]) {
      const int64_t row = in_all * a.wanted + to;
      for (int k = 0; k < 5; ++k) store_as<C>(a.out, a.dtype, row * 5 + k, values[k]);
      store_as<C>(a.out_scores, a.dtype, row, r.score);
    }
  }
}

template <class C>
void propose_pass(KernelContext& ctx, const ProposalParams& p, ProposalArgs a) {
  ScratchPlan plan;
  const auto add = [&](int64_t items, size_t bytes) {
    return plan.add(static_cast<size_t>(a.images * items) * bytes);
  };
  const size_t regions = add(a.count(), sizeof(Region<C>));
  const size_t entries = add(a.padded, sizeof(Ranked));
  const SuppressionMemory<C> memory(plan, a.images, a.limit);
  void* const block = ctx.scratch(plan.bytes());
  a.regions = part<void>(block, regions);
  a.entries = part<Ranked>(block, entries);
  Suppression<C> s = memory.place(ctx, block);
  s.wanted = a.wanted;
  Anchors<C> anchors;
  for (anchors.first = 0; anchors.first < a.kinds; anchors.first += kAnchors) {
    anchors.count = std::min(kAnchors, a.kinds - anchors.first);
    for (int64_t k = 0; k < anchors.count; ++k)
      anchors.base[k] = mxlite::proposal::base_anchor<C>(p, anchors.first + k);
    const int64_t n = a.images * anchors.count * a.positions();
    launch_items(ctx, predict_regions<C>, n, n, a, anchors);
  }
  const int64_t num_entries = a.images * a.padded, num_ranked = a.images * a.limit;
  launch_items(ctx, rank_regions<C>, num_entries, num_entries, a);
  sort_ranked_lists(ctx, a.entries, a.images, a.padded);
  launch_items(ctx, load_ranked<C>, num_ranked, num_ranked, a, s);
  suppress(ctx, s, DropsRegion<C>{a.threshold});
  launch_items(ctx, write_regions<C>, num_ranked, num_ranked, a, s);
}

void proposal_op(KernelContext& ctx, const ProposalParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  const Shape& cls = in[0].shape;
  ProposalArgs a{};
  a.scores = in[0].data;
  a.offsets = in[1].data;
  a.info = in[2].data;
  a.out = out[0].data;
  a.out_scores = out[1].data;
  a.dtype = out[0].dtype;
  a.kinds = cls[1] / 2;
  a.height = cls[2];
  a.width = cls[3];
  a.limit = a.count();
  if (p.rpn_pre_nms_top_n > 0) a.limit = std::min<int64_t>(p.rpn_pre_nms_top_n, a.limit);
  a.wanted = p.rpn_post_nms_top_n;
  a.padded = power_of_two_from(a.count());
  a.feature_stride = p.feature_stride;
  a.min_size = p.rpn_min_size;
  a.threshold = p.threshold;
  a.iou_loss = p.iou_loss;
  const int64_t images = cls[0];
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    const int64_t bytes = a.count() * static_cast<int64_t>(sizeof(Region<C>)) +
                          a.padded * static_cast<int64_t>(sizeof(Ranked)) +
                          SuppressionMemory<C>::image_bytes(a.limit);
    const int64_t step = images_per_pass(images, a.limit, bytes);
    for (a.first_image = 0; a.first_image < images; a.first_image += step) {
      a.images = std::min(step, images - a.first_image);
      propose_pass<C>(ctx, p, a);
    }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::proposal_op>("_contrib_Proposal");
  ops.cuda_kernel<&cuda::proposal_op>("_contrib_MultiProposal");
});

}  // namespace mxlite::cuda
