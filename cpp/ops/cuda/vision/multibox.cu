// Anchors and detections of single-shot detectors.
#include "cpp/ops/cuda/vision/suppression.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/multibox.h"

namespace mxlite::cuda {
namespace {

constexpr int kMostKinds = 64;

struct PriorArgs {
  void* out;
  DType dtype;
  int64_t rows, columns, kinds;
  double step_y, step_x, offset_y, offset_x;
  double half_width[kMostKinds], half_height[kMostKinds];
  bool clip;
};

template <class C>
__global__ void prior_kernel(int64_t n, const __grid_constant__ PriorArgs a) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t kind = i % a.kinds, column = i / a.kinds % a.columns,
                  row = i / (a.kinds * a.columns);
    const C y = (static_cast<C>(row) + static_cast<C>(a.offset_y)) * static_cast<C>(a.step_y);
    const C x = (static_cast<C>(column) + static_cast<C>(a.offset_x)) * static_cast<C>(a.step_x);
    const C width = static_cast<C>(a.half_width[kind]),
            height = static_cast<C>(a.half_height[kind]);
    C box[4] = {x - width, y - height, x + width, y + height};
    for (int k = 0; k < 4; ++k) {
      if (a.clip) box[k] = box[k] < C(0) ? C(0) : box[k] > C(1) ? C(1) : box[k];
      store_as<C>(a.out, a.dtype, 4 * i + k, box[k]);
    }
  }
}

// Computes half of the anchors' sizes in type C, as on the CPU.
template <class C>
void fill_sizes(const MultiBoxPriorParams& p, PriorArgs& a) {
  const auto height = static_cast<C>(a.rows), width = static_cast<C>(a.columns);
  auto step_y = static_cast<C>(p.steps[0]), step_x = static_cast<C>(p.steps[1]);
  if (step_y <= 0 || step_x <= 0) {
    step_y = 1 / height;
    step_x = 1 / width;
  }
  a.step_y = step_y;
  a.step_x = step_x;
  for (int64_t kind = 0; kind < a.kinds; ++kind) {
    const auto i = static_cast<size_t>(kind);
    const bool first_ratio = i < p.sizes.size();
    const C size = static_cast<C>(p.sizes[first_ratio ? i : 0]);
    const C root = std::sqrt(static_cast<C>(p.ratios[first_ratio ? 0 : i + 1 - p.sizes.size()]));
    a.half_width[kind] = size * height / width * root / 2;
    a.half_height[kind] = size / root / 2;
  }
}

void prior(KernelContext& ctx, const MultiBoxPriorParams& p, Inputs in, Outputs out) {
  PriorArgs a{};
  a.out = out[0].data;
  a.dtype = out[0].dtype;
  a.rows = in[0].shape[2];
  a.columns = in[0].shape[3];
  a.kinds = static_cast<int64_t>(p.sizes.size() + p.ratios.size()) - 1;
  MX_CHECK_KIND(a.kinds <= kMostKinds, ErrorKind::kNotSupported,
                "_contrib_MultiBoxPrior: the number of boxes for each position must be at most ",
                kMostKinds, " on a GPU, got ", a.kinds);
  a.offset_y = p.offsets[0];
  a.offset_x = p.offsets[1];
  a.clip = p.clip;
  const int64_t n = a.rows * a.columns * a.kinds;
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    fill_sizes<C>(p, a);
    launch_items(ctx, prior_kernel<C>, n, n, a);
  });
}

constexpr int64_t kRow = 6;  // class, probability, xmin, ymin, xmax, ymax

struct DetectArgs {
  const void *probabilities, *offsets, *anchors;
  void* out;
  DType dtype;
  int64_t first_image, images;  // range of images that this pass processes
  int64_t classes, num_anchors, padded;
  float threshold, nms_threshold;
  double variances[4];
  int64_t limit;  // number of best detections that are compared
  bool clip, one_group, suppresses;
  void* rows;           // rows of this pass, by image and anchor
  int64_t* detections;  // number of detections, by image
  Ranked* entries;
  __device__ int64_t first_row(int64_t image) const { return (first_image + image) * num_anchors; }
};

template <class C>
__global__ void decode_kernel(int64_t n, const __grid_constant__ DetectArgs a) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t image = a.first_image + i / a.num_anchors, anchor = i % a.num_anchors;
    const int64_t first = image * a.classes * a.num_anchors + anchor;
    C score = C(-1);  // highest probability of a class other than background
    int64_t id = 0;
    for (int64_t c = 1; c < a.classes; ++c) {
      const C v = load_as<C>(a.probabilities, a.dtype, first + c * a.num_anchors);
      if (v > score) {
        score = v;
        id = c;
      }
    }
    const bool detected = id > 0 && !(score < static_cast<C>(a.threshold));
    store_as<C>(a.rows, a.dtype, i * kRow, static_cast<C>(detected ? id - 1 : -1));
    if (!detected) continue;
    store_as<C>(a.rows, a.dtype, i * kRow + 1, score);
    C box[4], offset[4];
    for (int k = 0; k < 4; ++k) {
      box[k] = load_as<C>(a.anchors, a.dtype, 4 * anchor + k);
      offset[k] = load_as<C>(a.offsets, a.dtype, 4 * (image * a.num_anchors + anchor) + k) *
                  static_cast<C>(a.variances[k]);
    }
    const C width = box[2] - box[0], height = box[3] - box[1];
    const C x = offset[0] * width + (box[0] + box[2]) / 2;
    const C y = offset[1] * height + (box[1] + box[3]) / 2;
    const C half_width = std::exp(offset[2]) * width / 2;
    const C half_height = std::exp(offset[3]) * height / 2;
    C corners[4] = {x - half_width, y - half_height, x + half_width, y + half_height};
    for (int k = 0; k < 4; ++k) {
      if (a.clip) {
        corners[k] = corners[k] < C(1) ? corners[k] : C(1);
        corners[k] = corners[k] > C(0) ? corners[k] : C(0);
      }
      store_as<C>(a.rows, a.dtype, i * kRow + 2 + k, corners[k]);
    }
  }
}

// Copies row `from` of this pass to row `to` of the output.
template <class C>
__device__ void copy_row(const DetectArgs& a, int64_t from, int64_t to) {
  for (int64_t k = 0; k < kRow; ++k)
    store_as<C>(a.out, a.dtype, to * kRow + k, load_as<C>(a.rows, a.dtype, from * kRow + k));
}

// One block per image writes its detections in the order of anchors, then rows of -1.
template <class C>
__global__ void __launch_bounds__(kThreads) collect(const __grid_constant__ DetectArgs a) {
  for (int64_t image = blockIdx.x; image < a.images; image += gridDim.x) {
    const int64_t from = image * a.num_anchors, to = a.first_row(image);
    const int64_t count = list_kept(
        a.num_anchors,
        [&](int64_t i) { return load_as<C>(a.rows, a.dtype, (from + i) * kRow) >= C(0); },
        [&](int64_t i, int64_t place) { copy_row<C>(a, from + i, to + place); });
    for (int64_t i = count * kRow + threadIdx.x; i < a.num_anchors * kRow; i += blockDim.x)
      store_as<C>(a.out, a.dtype, to * kRow + i, C(-1));
    if (threadIdx.x == 0) a.detections[image] = count;
  }
}

template <class C>
__global__ void rank_detections(int64_t n, const __grid_constant__ DetectArgs a) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t i = at % a.padded;
    Ranked entry{kLastKey, i};
    const int64_t row = (at / a.padded * a.num_anchors + i) * kRow;
    if (i < a.num_anchors && load_as<C>(a.rows, a.dtype, row) >= C(0))
      entry.key = falling_key(static_cast<double>(load_as<C>(a.rows, a.dtype, row + 1)));
    a.entries[at] = entry;
  }
}

// Overwrites the first rows of the output with the best detections, in descending order.
template <class C>
__global__ void load_ranked(int64_t n, const __grid_constant__ DetectArgs a,
                            const __grid_constant__ Suppression<C> s) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t image = at / a.limit, i = at % a.limit;
    const int64_t count = a.detections[image] < a.limit ? a.detections[image] : a.limit;
    if (i == 0) s.counts[image] = count;
    if (i >= count) continue;
    const int64_t from = image * a.num_anchors + a.entries[image * a.padded + i].index;
    copy_row<C>(a, from, a.first_row(image) + i);
    C v[4];
    for (int k = 0; k < 4; ++k) v[k] = load_as<C>(a.rows, a.dtype, from * kRow + 2 + k);
    const auto id = static_cast<int32_t>(load_as<C>(a.rows, a.dtype, from * kRow));
    s.boxes[at] = {v[0], v[1], v[2], v[3], (v[2] - v[0]) * (v[3] - v[1]), a.one_group ? 0 : id};
  }
}

template <class C>
struct DropsDetection {
  C threshold;
  __device__ bool operator()(const RankedBox<C>& b, const RankedBox<C>& c) const {
    const C common = common_length(b.left, b.right, c.left, c.right) *
                     common_length(b.top, b.bottom, c.top, c.bottom);
    const C all = b.area + c.area - common;
    return (all <= C(0) ? C(0) : common / all) >= threshold;
  }
};

// Sets the class of detections that are suppressed, or were not compared, to -1.
template <class C>
__global__ void clear_dropped(int64_t n, const __grid_constant__ DetectArgs a,
                              const __grid_constant__ Suppression<C> s) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t image = at / a.num_anchors, i = at % a.num_anchors;
    if (i < a.detections[image] && (i >= a.limit || s.place(image, i) < 0))
      store_as<C>(a.out, a.dtype, (a.first_row(image) + i) * kRow, C(-1));
  }
}

template <class C>
void detect_pass(KernelContext& ctx, DetectArgs a) {
  ScratchPlan plan;
  const auto add = [&](int64_t count, size_t bytes) {
    return plan.add(static_cast<size_t>(a.images * count) * bytes);
  };
  const size_t rows = add(a.num_anchors * kRow, dtype_size(a.dtype));
  const size_t detections = add(1, sizeof(int64_t));
  const size_t entries = add(a.padded, sizeof(Ranked));
  const SuppressionMemory<C> memory(plan, a.images, a.limit);
  void* const block = ctx.scratch(plan.bytes());
  a.rows = part<void>(block, rows);
  a.detections = part<int64_t>(block, detections);
  a.entries = part<Ranked>(block, entries);
  const int64_t n = a.images * a.num_anchors;
  launch_items(ctx, decode_kernel<C>, n, n, a);
  launch(ctx, collect<C>, blocks_per_task(ctx, a.images), kThreads, a);
  if (!a.suppresses) return;
  const Suppression<C> s = memory.place(ctx, block);
  const int64_t num_entries = a.images * a.padded, num_ranked = a.images * a.limit;
  launch_items(ctx, rank_detections<C>, num_entries, num_entries, a);
  sort_ranked_lists(ctx, a.entries, a.images, a.padded);
  launch_items(ctx, load_ranked<C>, num_ranked, num_ranked, a, s);
  suppress(ctx, s, DropsDetection<C>{static_cast<C>(a.nms_threshold)});
  launch_items(ctx, clear_dropped<C>, n, n, a, s);
}

void detection(KernelContext& ctx, const MultiBoxDetectionParams& p, Inputs in, Outputs out) {
  DetectArgs a{};
  a.probabilities = in[0].data;
  a.offsets = in[1].data;
  a.anchors = in[2].data;
  a.out = out[0].data;
  a.dtype = out[0].dtype;
  a.classes = in[0].shape[1];
  a.num_anchors = out[0].shape[1];
  a.padded = power_of_two_from(a.num_anchors);
  a.threshold = p.threshold;
  a.nms_threshold = p.nms_threshold;
  for (size_t k = 0; k < 4; ++k) a.variances[k] = p.variances[k];
  a.limit = p.nms_topk > 0 ? std::min<int64_t>(p.nms_topk, a.num_anchors) : a.num_anchors;
  a.clip = p.clip;
  a.one_group = p.force_suppress;
  a.suppresses = p.nms_threshold > 0 && p.nms_threshold <= 1;
  const int64_t images = out[0].shape[0];
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    const int64_t bytes = a.num_anchors * kRow * static_cast<int64_t>(dtype_size(a.dtype)) +
                          a.padded * static_cast<int64_t>(sizeof(Ranked)) +
                          SuppressionMemory<C>::image_bytes(a.limit);
    const int64_t step = images_per_pass(images, a.limit, bytes);
    for (a.first_image = 0; a.first_image < images; a.first_image += step) {
      a.images = std::min(step, images - a.first_image);
      detect_pass<C>(ctx, a);
    }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::prior>("_contrib_MultiBoxPrior", kStrided);
  ops.cuda_kernel<&cuda::detection>("_contrib_MultiBoxDetection");
});

}  // namespace mxlite::cuda
