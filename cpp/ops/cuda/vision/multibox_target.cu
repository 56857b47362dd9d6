// Training targets of single-shot detectors. The steps are those of the CPU kernel. Each step
// processes all images of a pass. Two steps use one block per image: matching of labels, because
// each match depends on earlier matches, and selection among sorted negatives.
#include "cpp/ops/cpu/vision/bilinear.h"
#include "cpp/ops/cuda/vision/ranking.cuh"
#include "cpp/ops/cuda/vision/suppression_plan.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/multibox.h"

namespace mxlite::cuda {
namespace {

constexpr float kNoOverlap = -1.0f;  // less than any overlap that can match
constexpr float kLeastOverlap = 1e-6f;

enum class Role : int8_t { kIgnored, kNegative, kPositive };

struct TargetArgs {
  const void *anchors, *labels, *predictions;
  void *location, *mask, *classes;
  DType dtype;
  int64_t first_image, images;  // range of images that this pass processes
  int64_t num_anchors, num_labels, label_width, num_classes, padded;
  float overlap_threshold, ignore_label, mining_ratio, mining_threshold;
  int64_t least_negatives;
  double variances[4];
  // Each array below has a part for each image of this pass.
  int64_t* num_valid;     // number of labels before the first one of class -1
  int64_t* label_anchor;  // for each label: the free anchor that overlaps most, or -1
  float* overlaps;        // a row of anchors per label
  float* best_overlap;    // for each anchor that match_labels has not matched
  int32_t* best_label;    // by anchor
  Role* role;             // by anchor
  Ranked* entries;        // used only if negatives are mined

  bool mines() const { return mining_ratio > 0; }
  template <class C>
  __device__ C label(int64_t image, int64_t k, int i) const {
    const int64_t row = (first_image + image) * num_labels + k;
    return load_as<C>(labels, dtype, row * label_width + i);
  }
  template <class C>
  __device__ C anchor(int64_t j, int i) const {
    return load_as<C>(anchors, dtype, 4 * j + i);
  }
  __device__ float* overlap_row(int64_t image, int64_t k) const {
    return overlaps + (image * num_labels + k) * num_anchors;
  }
};

template <class C>
__global__ void count_labels(int64_t n, const __grid_constant__ TargetArgs a) {
  for (int64_t image = global_index(); image < n; image += grid_stride()) {
    int64_t count = 0;
    while (count < a.num_labels && a.label<C>(image, count, 0) != C(-1)) ++count;
    a.num_valid[image] = count;
  }
}

// One thread per image, label and anchor.
template <class C>
__global__ void compute_overlaps(int64_t n, const __grid_constant__ TargetArgs a) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t j = at % a.num_anchors, k = at / a.num_anchors % a.num_labels;
    const int64_t image = at / a.num_anchors / a.num_labels;
    if (k >= a.num_valid[image]) continue;
    C b[4], v[4];
    for (int i = 0; i < 4; ++i) {
      b[i] = a.label<C>(image, k, i + 1);
      v[i] = a.anchor<C>(j, i);
    }
    const C common = common_length(v[0], v[2], b[0], b[2]) * common_length(v[1], v[3], b[1], b[3]);
    const C all = (v[2] - v[0]) * (v[3] - v[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common;
    a.overlaps[at] = static_cast<float>(all == C(0) ? C(0) : common / all);
  }
}

// Must be called by all threads of a block. Returns to all of them the first anchor with the
// largest overlap in the row, or -1 if no overlap is large enough.
__device__ inline int64_t nearest_anchor(const float* row, int64_t count) {
  float most = kLeastOverlap;
  int64_t best = -1;
  for (int64_t j = threadIdx.x; j < count; j += blockDim.x)
    if (row[j] > most) {
      most = row[j];
      best = j;
    }
  const float largest = block_max(most, kLeastOverlap);
  // Finds the smallest index with this overlap as the maximum of negated indices.
  const int64_t none = -count - 1;
  const int64_t found = block_max(best >= 0 && most == largest ? -best : none, none);
  return found == none ? -1 : -found;
}

// One block per image and label.
__global__ void __launch_bounds__(kThreads)
    find_nearest_anchors(int64_t tasks, const __grid_constant__ TargetArgs a) {
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const int64_t image = task / a.num_labels, k = task % a.num_labels;
    if (k >= a.num_valid[image]) continue;
    const int64_t found = nearest_anchor(a.overlap_row(image, k), a.num_anchors);
    if (threadIdx.x == 0) a.label_anchor[task] = found;
  }
}

__global__ void start_roles(int64_t n, const __grid_constant__ TargetArgs a, Role first) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) a.role[at] = first;
}

// Greedy matching, one block per image: repeatedly takes the unmatched label and the unmatched
// anchor with the largest overlap.
__global__ void __launch_bounds__(kThreads) match_labels(const __grid_constant__ TargetArgs a) {
  for (int64_t image = blockIdx.x; image < a.images; image += gridDim.x) {
    int64_t* const label_anchor = a.label_anchor + image * a.num_labels;
    const int64_t num_valid = a.num_valid[image], first = image * a.num_anchors;
    for (;;) {
      int64_t best = -1, nearest = -1;  // equal in all threads
      float most = kLeastOverlap;
      for (int64_t k = 0; k < num_valid; ++k) {
        const int64_t j = label_anchor[k];
        if (j < 0) continue;
        const float overlap = a.overlap_row(image, k)[j];
        if (overlap > most || (overlap == most && j < nearest)) {
          most = overlap;
          best = k;
          nearest = j;
        }
      }
      if (best < 0) break;
      __syncthreads();  // until all threads have read the arrays that are written below
      if (threadIdx.x == 0) {
        a.role[first + nearest] = Role::kPositive;
        a.best_label[first + nearest] = static_cast<int32_t>(best);
        label_anchor[best] = -1;
      }
      for (int64_t k = threadIdx.x; k < num_valid; k += blockDim.x)
        a.overlap_row(image, k)[nearest] = kNoOverlap;
      __syncthreads();
      for (int64_t k = 0; k < num_valid; ++k) {
        if (label_anchor[k] != nearest) continue;
        const int64_t found = nearest_anchor(a.overlap_row(image, k), a.num_anchors);
        if (threadIdx.x == 0) label_anchor[k] = found;
        __syncthreads();
      }
    }
    __syncthreads();
  }
}

// Finds the first label with the largest overlap for every anchor left by match_labels.
__global__ void find_best_labels(int64_t n, const __grid_constant__ TargetArgs a) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t image = at / a.num_anchors, j = at % a.num_anchors;
    float most = kNoOverlap;
    for (int64_t k = 0; k < a.num_valid[image]; ++k) {
      const float overlap = a.overlap_row(image, k)[j];
      if (overlap > most) {
        most = overlap;
        a.best_label[at] = static_cast<int32_t>(k);
      }
    }
    a.best_overlap[at] = most;
    if (a.overlap_threshold > 0 && most > a.overlap_threshold) a.role[at] = Role::kPositive;
  }
}

// Returns the predicted probability of background for an anchor.
template <class C>
__device__ C background(const TargetArgs& a, int64_t image, int64_t j) {
  const int64_t first = (a.first_image + image) * a.num_classes * a.num_anchors + j;
  const auto prediction = [&](int64_t c) {
    return load_as<C>(a.predictions, a.dtype, first + c * a.num_anchors);
  };
  C largest = prediction(0), sum = 0;
  for (int64_t c = 1; c < a.num_classes; ++c)
    if (const C v = prediction(c); v > largest) largest = v;
  for (int64_t c = 0; c < a.num_classes; ++c) sum += std::exp(prediction(c) - largest);
  return std::exp(prediction(0) - largest) / sum;
}

// Makes keys that sort anchors which may be mined first, by ascending predicted background
// probability.
template <class C>
__global__ void rank_negatives(int64_t n, const __grid_constant__ TargetArgs a) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t image = at / a.padded, j = at % a.padded;
    Ranked entry{kLastKey, a.num_anchors + j};  // is sorted after NaN, because this index
                                                // is larger
    if (j < a.num_anchors && a.num_valid[image] > 0) {
      const int64_t own = image * a.num_anchors + j;
      if (a.role[own] != Role::kPositive && a.best_overlap[own] < a.mining_threshold)
        entry = {rising_key(static_cast<double>(static_cast<float>(background<C>(a, image, j)))),
                 j};
    }
    a.entries[at] = entry;
  }
}

// One block per image: counts positive anchors and marks mining_ratio times as many as negative.
__global__ void __launch_bounds__(kThreads) mine_negatives(const __grid_constant__ TargetArgs a) {
  for (int64_t image = blockIdx.x; image < a.images; image += gridDim.x) {
    Role* const role = a.role + image * a.num_anchors;
    int64_t num_positive = 0;
    for (int64_t j = threadIdx.x; j < a.num_anchors; j += blockDim.x)
      if (role[j] == Role::kPositive) ++num_positive;
    num_positive = block_sum(num_positive);
    const float asked = static_cast<float>(num_positive) * a.mining_ratio;
    int64_t wanted = cpu::clamp_index(asked, 0, a.num_anchors);
    if (wanted < a.least_negatives) wanted = a.least_negatives;
    if (wanted > a.num_anchors) wanted = a.num_anchors;
    const Ranked* const entries = a.entries + image * a.padded;
    for (int64_t i = threadIdx.x; i < wanted; i += blockDim.x)
      if (entries[i].index < a.num_anchors) role[entries[i].index] = Role::kNegative;
  }
}

template <class C>
__global__ void write_targets(int64_t n, const __grid_constant__ TargetArgs a) {
  for (int64_t own = global_index(); own < n; own += grid_stride()) {
    const int64_t image = own / a.num_anchors, j = own % a.num_anchors;
    const int64_t at = a.first_image * a.num_anchors + own;
    const Role role = a.num_valid[image] > 0 ? a.role[own] : Role::kIgnored;
    C target[4] = {0, 0, 0, 0}, class_id = static_cast<C>(a.ignore_label);
    if (role == Role::kNegative) class_id = C(0);
    if (role == Role::kPositive) {
      const int64_t k = a.best_label[own];
      class_id = a.label<C>(image, k, 0) + C(1);
      C v[4], b[4];
      for (int i = 0; i < 4; ++i) {
        v[i] = a.anchor<C>(j, i);
        b[i] = a.label<C>(image, k, i + 1);
      }
      const C width = v[2] - v[0], height = v[3] - v[1];
      const C encoded[4] = {((b[0] + b[2]) / 2 - (v[0] + v[2]) / 2) / width,
                            ((b[1] + b[3]) / 2 - (v[1] + v[3]) / 2) / height,
                            std::log((b[2] - b[0]) / width), std::log((b[3] - b[1]) / height)};
      for (int i = 0; i < 4; ++i) target[i] = encoded[i] / static_cast<C>(a.variances[i]);
    }
    store_as<C>(a.classes, a.dtype, at, class_id);
    for (int i = 0; i < 4; ++i) {
      store_as<C>(a.location, a.dtype, 4 * at + i, target[i]);
      store_as<C>(a.mask, a.dtype, 4 * at + i, role == Role::kPositive ? C(1) : C(0));
    }
  }
}

template <class C>
void target_pass(KernelContext& ctx, const TargetArgs& a) {
  const int64_t n = a.images * a.num_anchors, pairs = a.images * a.num_labels;
  const Role first = a.mines() ? Role::kIgnored : Role::kNegative;
  launch_items(ctx, count_labels<C>, a.images, a.images, a);
  launch_items(ctx, start_roles, n, n, a, first);
  launch_items(ctx, compute_overlaps<C>, pairs * a.num_anchors, pairs * a.num_anchors, a);
  if (pairs > 0) launch(ctx, find_nearest_anchors, blocks_per_task(ctx, pairs), kThreads, pairs, a);
  launch(ctx, match_labels, blocks_per_task(ctx, a.images), kThreads, a);
  launch_items(ctx, find_best_labels, n, n, a);
  if (a.mines()) {
    const int64_t num_entries = a.images * a.padded;
    launch_items(ctx, rank_negatives<C>, num_entries, num_entries, a);
    sort_ranked_lists(ctx, a.entries, a.images, a.padded);
    launch(ctx, mine_negatives, blocks_per_task(ctx, a.images), kThreads, a);
  }
  launch_items(ctx, write_targets<C>, n, n, a);
}

void target(KernelContext& ctx, const MultiBoxTargetParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  TargetArgs a{};
  a.anchors = in[0].data;
  a.labels = in[1].data;
  a.predictions = in[2].data;
  a.location = out[0].data;
  a.mask = out[1].data;
  a.classes = out[2].data;
  a.dtype = out[0].dtype;
  a.num_anchors = in[0].shape[1];
  a.num_labels = in[1].shape[1];
  a.label_width = in[1].shape[2];
  a.num_classes = in[2].shape[1];
  a.padded = power_of_two_from(a.num_anchors);
  a.overlap_threshold = p.overlap_threshold;
  a.ignore_label = p.ignore_label;
  a.mining_ratio = p.negative_mining_ratio;
  a.mining_threshold = p.negative_mining_thresh;
  a.least_negatives = p.minimum_negative_samples;
  for (size_t k = 0; k < 4; ++k) a.variances[k] = p.variances[k];
  const int64_t images = in[1].shape[0], num_entries = a.mines() ? a.padded : 0;
  const int64_t words = a.num_labels * a.num_anchors + 3 * a.num_anchors + 4 * (1 + a.num_labels);
  const int64_t step =
      images_per_pass(images, 0, 4 * words + num_entries * static_cast<int64_t>(sizeof(Ranked)));
  ScratchPlan plan;
  const auto add = [&](int64_t count, size_t bytes) {
    return plan.add(static_cast<size_t>(step * count) * bytes);
  };
  const size_t num_valid = add(1, sizeof(int64_t));
  const size_t label_anchor = add(a.num_labels, sizeof(int64_t));
  const size_t overlaps = add(a.num_labels * a.num_anchors, sizeof(float));
  const size_t best_overlap = add(a.num_anchors, sizeof(float));
  const size_t best_label = add(a.num_anchors, sizeof(int32_t));
  const size_t role = add(a.num_anchors, sizeof(Role));
  const size_t entries = add(num_entries, sizeof(Ranked));
  void* const block = ctx.scratch(plan.bytes());
  a.num_valid = part<int64_t>(block, num_valid);
  a.label_anchor = part<int64_t>(block, label_anchor);
  a.overlaps = part<float>(block, overlaps);
  a.best_overlap = part<float>(block, best_overlap);
  a.best_label = part<int32_t>(block, best_label);
  a.role = part<Role>(block, role);
  a.entries = part<Ranked>(block, entries);
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    for (a.first_image = 0; a.first_image < images; a.first_image += step) {
      a.images = std::min(step, images - a.first_image);
      target_pass<C>(ctx, a);
    }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::target>("_contrib_MultiBoxTarget");
});

}  // namespace mxlite::cuda
