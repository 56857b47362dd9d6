// Training targets of single-shot detectors: a block per image goes through the steps of the CPU's
// kernel, each over all anchors at once.
#include "cpp/ops/cuda/vision/ranking.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/multibox.h"

namespace mxlite {
namespace cuda {
namespace {

constexpr float kNoOverlap = -1.0f;  // below every overlap that counts
constexpr float kLeastOverlap = 1e-6f;

enum class Role : int8_t { kIgnored, kNegative, kPositive };

struct TargetArgs {
  const void *anchors, *labels, *predictions;
  void *location, *mask, *classes;
  DType dtype;
  int64_t images, num_anchors, num_labels, label_width, num_classes, padded;
  float overlap_threshold, ignore_label, mining_ratio, mining_threshold;
  int64_t least_negatives;
  double variances[4];
  // Per block.
  float *overlaps, *best_overlap;
  int32_t* best_label;
  Role* role;
  int64_t* label_anchor;
  Ranked* entries;
};

// The first anchor with the largest overlap in a row, -1 where none counts; known to all threads.
__device__ inline int64_t nearest_anchor(const float* row, int64_t count) {
  float most = kLeastOverlap;
  int64_t best = -1;
  for (int64_t j = threadIdx.x; j < count; j += blockDim.x)
    if (row[j] > most) {
      most = row[j];
      best = j;
    }
  const float largest = block_max(most, kLeastOverlap);
  // Smallest index with it: the largest of its negation.
  const int64_t none = -count - 1;
  const int64_t found = block_max(best >= 0 && most == largest ? -best : none, none);
  return found == none ? -1 : -found;
}

template <class C>
class Image {
 public:
  __device__ Image(const TargetArgs& a, int64_t image) : a_(a), image_(image) {
    const int64_t block = blockIdx.x;
    overlaps_ = a.overlaps + block * a.num_labels * a.num_anchors;
    best_overlap_ = a.best_overlap + block * a.num_anchors;
    best_label_ = a.best_label + block * a.num_anchors;
    role_ = a.role + block * a.num_anchors;
    label_anchor_ = a.label_anchor + block * a.num_labels;
    entries_ = a.entries + block * a.padded;
    while (num_valid_ < a.num_labels && label(num_valid_, 0) != C(-1)) ++num_valid_;
  }

  __device__ void run() {
    clear();
    if (num_valid_ == 0) return;
    const bool mining = a_.mining_ratio > 0;
    for (int64_t j = threadIdx.x; j < a_.num_anchors; j += blockDim.x)
      role_[j] = mining ? Role::kIgnored : Role::kNegative;
    compute_overlaps();
    int64_t num_positive = match_labels();
    find_best_labels();
    num_positive += take_large_overlaps();
    if (mining) mine_negatives(num_positive);
    __syncthreads();
    write();
  }

 private:
  __device__ C label(int64_t k, int i) const {
    return load_as<C>(a_.labels, a_.dtype, (image_ * a_.num_labels + k) * a_.label_width + i);
  }
  __device__ C anchor(int64_t j, int i) const {
    return load_as<C>(a_.anchors, a_.dtype, 4 * j + i);
  }

  __device__ void clear() {
    const int64_t n = a_.num_anchors, first = image_ * n;
    for (int64_t i = threadIdx.x; i < 4 * n; i += blockDim.x) {
      store_as<C>(a_.location, a_.dtype, 4 * first + i, C(0));
      store_as<C>(a_.mask, a_.dtype, 4 * first + i, C(0));
    }
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
      store_as<C>(a_.classes, a_.dtype, first + i, static_cast<C>(a_.ignore_label));
    __syncthreads();
  }

  __device__ void compute_overlaps() {
    for (int64_t at = threadIdx.x; at < num_valid_ * a_.num_anchors; at += blockDim.x) {
      const int64_t k = at / a_.num_anchors, j = at % a_.num_anchors;
      C b[4], v[4];
      for (int i = 0; i < 4; ++i) {
        b[i] = label(k, i + 1);
        v[i] = anchor(j, i);
      }
      const C common =
          common_length(v[0], v[2], b[0], b[2]) * common_length(v[1], v[3], b[1], b[3]);
      const C all = (v[2] - v[0]) * (v[3] - v[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common;
      overlaps_[at] = static_cast<float>(all == C(0) ? C(0) : common / all);
    }
    __syncthreads();
  }

  __device__ void find_nearest(int64_t k) {
    const int64_t found = nearest_anchor(overlaps_ + k * a_.num_anchors, a_.num_anchors);
    if (threadIdx.x == 0) label_anchor_[k] = found;
    __syncthreads();
  }

  // Pairs of a label and an anchor with the largest overlap of all that are left, one after the
  // other. Returns how many.
  __device__ int64_t match_labels() {
    for (int64_t k = 0; k < num_valid_; ++k) find_nearest(k);
    for (int64_t matched = 0;; ++matched) {
      int64_t best = -1, nearest = -1;  // the same in all threads
      float most = kLeastOverlap;
      for (int64_t k = 0; k < num_valid_; ++k) {
        const int64_t j = label_anchor_[k];
        if (j < 0) continue;
        const float overlap = overlaps_[k * a_.num_anchors + j];
        if (overlap > most || (overlap == most && j < nearest)) {
          most = overlap;
          best = k;
          nearest = j;
        }
      }
      if (best < 0) return matched;
      __syncthreads();
      if (threadIdx.x == 0) {
        role_[nearest] = Role::kPositive;
        best_label_[nearest] = static_cast<int32_t>(best);
        label_anchor_[best] = -1;
      }
      for (int64_t k = threadIdx.x; k < num_valid_; k += blockDim.x)
        overlaps_[k * a_.num_anchors + nearest] = kNoOverlap;
      __syncthreads();
      for (int64_t k = 0; k < num_valid_; ++k)
        if (label_anchor_[k] == nearest) find_nearest(k);
    }
  }

  // The first label that overlaps most, for every anchor that match_labels left.
  __device__ void find_best_labels() {
    for (int64_t j = threadIdx.x; j < a_.num_anchors; j += blockDim.x) {
      float most = kNoOverlap;
      for (int64_t k = 0; k < num_valid_; ++k) {
        const float overlap = overlaps_[k * a_.num_anchors + j];
        if (overlap > most) {
          most = overlap;
          best_label_[j] = static_cast<int32_t>(k);
        }
      }
      best_overlap_[j] = most;
    }
  }

  __device__ int64_t take_large_overlaps() {
    int64_t taken = 0;
    if (a_.overlap_threshold > 0)
      for (int64_t j = threadIdx.x; j < a_.num_anchors; j += blockDim.x)
        if (role_[j] != Role::kPositive && best_overlap_[j] > a_.overlap_threshold) {
          role_[j] = Role::kPositive;
          ++taken;
        }
    return block_sum(taken);
  }

  // Probability of the background.
  __device__ C background(int64_t j) const {
    const int64_t first = image_ * a_.num_classes * a_.num_anchors + j;
    C largest = 0, sum = 0;
    for (int64_t c = 0; c < a_.num_classes; ++c) {
      const C v = load_as<C>(a_.predictions, a_.dtype, first + c * a_.num_anchors);
      if (c == 0 || v > largest) largest = v;
    }
    for (int64_t c = 0; c < a_.num_classes; ++c)
      sum += std::exp(load_as<C>(a_.predictions, a_.dtype, first + c * a_.num_anchors) - largest);
    return std::exp(load_as<C>(a_.predictions, a_.dtype, first) - largest) / sum;
  }

  // Marks the anchors that look least like background although they are.
  __device__ void mine_negatives(int64_t num_positive) {
    auto wanted = static_cast<int64_t>(static_cast<float>(num_positive) * a_.mining_ratio);
    if (wanted < a_.least_negatives) wanted = a_.least_negatives;
    if (wanted <= 0) return;
    int64_t count = 0;
    for (int64_t j = threadIdx.x; j < a_.padded; j += blockDim.x) {
      entries_[j] = {kLastKey, a_.num_anchors + j};  // after a NaN
      if (j < a_.num_anchors && role_[j] != Role::kPositive &&
          best_overlap_[j] < a_.mining_threshold) {
        entries_[j] = {rising_key(static_cast<double>(static_cast<float>(background(j)))), j};
        ++count;
      }
    }
    count = block_sum(count);
    sort_ranked(entries_, a_.padded);
    if (wanted > count) wanted = count;
    for (int64_t i = threadIdx.x; i < wanted; i += blockDim.x)
      role_[entries_[i].index] = Role::kNegative;
  }

  __device__ void write() {
    for (int64_t j = threadIdx.x; j < a_.num_anchors; j += blockDim.x) {
      const int64_t at = image_ * a_.num_anchors + j;
      if (role_[j] == Role::kNegative) store_as<C>(a_.classes, a_.dtype, at, C(0));
      if (role_[j] != Role::kPositive) continue;
      const int64_t k = best_label_[j];
      store_as<C>(a_.classes, a_.dtype, at, label(k, 0) + C(1));
      C v[4], b[4];
      for (int i = 0; i < 4; ++i) {
        v[i] = anchor(j, i);
        b[i] = label(k, i + 1);
      }
      const C width = v[2] - v[0], height = v[3] - v[1];
      const C encoded[4] = {((b[0] + b[2]) / 2 - (v[0] + v[2]) / 2) / width,
                            ((b[1] + b[3]) / 2 - (v[1] + v[3]) / 2) / height,
                            std::log((b[2] - b[0]) / width), std::log((b[3] - b[1]) / height)};
      for (int i = 0; i < 4; ++i) {
        store_as<C>(a_.location, a_.dtype, 4 * at + i,
                    encoded[i] / static_cast<C>(a_.variances[i]));
        store_as<C>(a_.mask, a_.dtype, 4 * at + i, C(1));
      }
    }
  }

  const TargetArgs& a_;
  const int64_t image_;
  int64_t num_valid_ = 0;  // labels before the first of class -1
  float *overlaps_, *best_overlap_;
  int32_t* best_label_;
  Role* role_;
  int64_t* label_anchor_;  // nearest free anchor of each label, -1: none
  Ranked* entries_;
};

template <class C>
__global__ void __launch_bounds__(kThreads) target_kernel(const __grid_constant__ TargetArgs a) {
  for (int64_t image = blockIdx.x; image < a.images; image += gridDim.x) {
    Image<C>(a, image).run();
    __syncthreads();
  }
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
  a.images = in[1].shape[0];
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
  const int64_t blocks = std::min(a.images, kMostImageBlocks);
  ScratchPlan plan;
  const auto add = [&](int64_t count, size_t bytes) {
    return plan.add(static_cast<size_t>(blocks * count) * bytes);
  };
  const size_t overlaps = add(a.num_labels * a.num_anchors, sizeof(float));
  const size_t best_overlap = add(a.num_anchors, sizeof(float));
  const size_t best_label = add(a.num_anchors, sizeof(int32_t));
  const size_t role = add(a.num_anchors, sizeof(Role));
  const size_t label_anchor = add(a.num_labels, sizeof(int64_t));
  const size_t entries = add(a.padded, sizeof(Ranked));
  void* const block = ctx.scratch(plan.bytes());
  a.overlaps = part<float>(block, overlaps);
  a.best_overlap = part<float>(block, best_overlap);
  a.best_label = part<int32_t>(block, best_label);
  a.role = part<Role>(block, role);
  a.label_anchor = part<int64_t>(block, label_anchor);
  a.entries = part<Ranked>(block, entries);
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    launch(ctx, target_kernel<C>, static_cast<unsigned>(blocks), kThreads, a);
  });
}

}  // namespace
}  // namespace cuda

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.kernel<&cuda::target>("_contrib_MultiBoxTarget", DeviceType::kCUDA);
});

}  // namespace mxlite
