#include "cpp/ops/cuda/vision/ranking.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/proposal_rules.h"

namespace mxlite {
namespace cuda {
namespace {

using mxlite::proposal::ImageInfo;
using mxlite::proposal::Offsets;
using mxlite::proposal::Region;

// So many kinds of anchors fit into a kernel's arguments.
constexpr int64_t kAnchors = 32;
template <class C>
struct Anchors {
  Region<C> base[kAnchors];
  int64_t first, count;  // range within all kinds
};

struct ProposalArgs {
  const void *scores, *offsets, *info;
  void *out, *out_scores;
  DType dtype;
  int64_t images, kinds, height, width, limit, wanted, padded;
  int feature_stride, min_size;
  float threshold;
  bool iou_loss;
  void* regions;  // regions of all images, in the order (row, column, anchor)
  // Per block.
  Ranked* entries;
  void* ranked_boxes;
  uint8_t* dropped;
  int64_t* kept;
  __device__ int64_t positions() const { return height * width; }
};

template <class C>
__global__ void predict_regions(int64_t n, const __grid_constant__ ProposalArgs a,
                                const __grid_constant__ Anchors<C> anchors) {
  const int64_t step = a.positions(), count = a.kinds * step;
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t place = i % step, kind = i / step % anchors.count;
    const int64_t image = i / step / anchors.count, all = anchors.first + kind;
    const auto info = [&](int64_t k) { return load_as<C>(a.info, a.dtype, 3 * image + k); };
    const ImageInfo<C> pixels(a.feature_stride, info(0), info(1), info(2));
    const auto offset = [&](int64_t k) {
      return load_as<C>(a.offsets, a.dtype, 4 * image * count + (4 * all + k) * step + place);
    };
    const Offsets<C> offsets{offset(0), offset(1), offset(2), offset(3)};
    const C score = load_as<C>(a.scores, a.dtype, (2 * image + 1) * count + all * step + place);
    static_cast<Region<C>*>(a.regions)[image * count + place * a.kinds + all] =
        mxlite::proposal::propose(anchors.base[kind], a.iou_loss, a.feature_stride, a.min_size,
                                  place / a.width, place % a.width, offsets, score, pixels);
  }
}

// Greedy, best first, until enough are kept; returns how many.
template <class C>
__device__ int64_t keep_best(const RankedBox<C>* boxes, uint8_t* dropped, int64_t count,
                             int64_t wanted, float threshold, int64_t* kept) {
  int64_t size = 0;
  for (int64_t i = 0; i < count && size < wanted; ++i) {
    __syncthreads();
    if (dropped[i]) continue;  // the same for all threads
    if (threadIdx.x == 0) kept[size] = i;
    ++size;
    const RankedBox<C> best = boxes[i];
    for (int64_t j = i + 1 + threadIdx.x; j < count; j += blockDim.x)
      if (!dropped[j] && mxlite::proposal::overlap<C>(best, boxes[j]) > threshold) dropped[j] = 1;
  }
  __syncthreads();
  return size;
}

template <class C>
__global__ void __launch_bounds__(kThreads) choose_regions(const __grid_constant__ ProposalArgs a) {
  Ranked* const entries = a.entries + blockIdx.x * a.padded;
  auto* const boxes = static_cast<RankedBox<C>*>(a.ranked_boxes) + blockIdx.x * a.limit;
  uint8_t* const dropped = a.dropped + blockIdx.x * a.limit;
  int64_t* const kept = a.kept + blockIdx.x * a.wanted;
  const int64_t count = a.kinds * a.positions();
  for (int64_t image = blockIdx.x; image < a.images; image += gridDim.x) {
    const auto* const regions = static_cast<const Region<C>*>(a.regions) + image * count;
    for (int64_t i = threadIdx.x; i < a.padded; i += blockDim.x)
      entries[i] = {i < count ? falling_key(static_cast<double>(regions[i].score)) : kLastKey, i};
    sort_ranked(entries, a.padded);
    for (int64_t i = threadIdx.x; i < a.limit; i += blockDim.x) {
      const Region<C>& r = regions[entries[i].index];
      boxes[i] = {r.left, r.top, r.right, r.bottom, (r.right - r.left + 1) * (r.bottom - r.top + 1),
                  0};
      dropped[i] = 0;
    }
    const int64_t size = keep_best(boxes, dropped, a.limit, a.wanted, a.threshold, kept);
    for (int64_t i = threadIdx.x; i < a.wanted; i += blockDim.x) {
      const Region<C>& r = regions[entries[kept[i % size]].index];
      const C values[5] = {static_cast<C>(image), r.left, r.top, r.right, r.bottom};
      const int64_t row = image * a.wanted + i;
      for (int k = 0; k < 5; ++k) store_as<C>(a.out, a.dtype, row * 5 + k, values[k]);
      store_as<C>(a.out_scores, a.dtype, row, r.score);
    }
    __syncthreads();
  }
}

template <class C>
void propose(KernelContext& ctx, const ProposalParams& p, ProposalArgs a) {
  const int64_t positions = a.height * a.width, count = a.kinds * positions;
  const int64_t blocks = std::min(a.images, kMostImageBlocks);
  ScratchPlan plan;
  const auto add = [&](int64_t items, size_t bytes) {
    return plan.add(static_cast<size_t>(items) * bytes);
  };
  const size_t regions = add(a.images * count, sizeof(Region<C>));
  const size_t entries = add(blocks * a.padded, sizeof(Ranked));
  const size_t boxes = add(blocks * a.limit, sizeof(RankedBox<C>));
  const size_t kept = add(blocks * a.wanted, sizeof(int64_t));
  const size_t dropped = add(blocks * a.limit, 1);
  void* const block = ctx.scratch(plan.bytes());
  a.regions = part<void>(block, regions);
  a.entries = part<Ranked>(block, entries);
  a.ranked_boxes = part<void>(block, boxes);
  a.kept = part<int64_t>(block, kept);
  a.dropped = part<uint8_t>(block, dropped);
  Anchors<C> anchors;
  for (anchors.first = 0; anchors.first < a.kinds; anchors.first += kAnchors) {
    anchors.count = std::min(kAnchors, a.kinds - anchors.first);
    for (int64_t k = 0; k < anchors.count; ++k)
      anchors.base[k] = mxlite::proposal::base_anchor<C>(p, anchors.first + k);
    const int64_t n = a.images * anchors.count * positions;
    launch_items(ctx, predict_regions<C>, n, n, a, anchors);
  }
  launch(ctx, choose_regions<C>, static_cast<unsigned>(blocks), kThreads, a);
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
  a.images = cls[0];
  a.kinds = cls[1] / 2;
  a.height = cls[2];
  a.width = cls[3];
  const int64_t count = a.kinds * a.height * a.width;
  a.limit = p.rpn_pre_nms_top_n > 0 ? std::min<int64_t>(p.rpn_pre_nms_top_n, count) : count;
  a.wanted = p.rpn_post_nms_top_n;
  a.padded = power_of_two_from(count);
  a.feature_stride = p.feature_stride;
  a.min_size = p.rpn_min_size;
  a.threshold = p.threshold;
  a.iou_loss = p.iou_loss;
  dispatch_float_compute(a.dtype, [&]<class C>(C) { propose<C>(ctx, p, a); });
}

}  // namespace
}  // namespace cuda

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.kernel<&cuda::proposal_op>("_contrib_Proposal", DeviceType::kCUDA);
  ops.kernel<&cuda::proposal_op>("_contrib_MultiProposal", DeviceType::kCUDA);
});

}  // namespace mxlite
