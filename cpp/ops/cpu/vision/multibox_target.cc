#include <algorithm>
#include <cmath>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/ordering.h"
#include "cpp/ops/cpu/vision/bilinear.h"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/multibox.h"

namespace mxlite {
namespace {

constexpr int64_t kMultiboxTargetBlock =
    128;                             // number of anchors whose classes are compared together
constexpr float kNoOverlap = -1.0f;  // less than every overlap that can match
constexpr float kLeastOverlap = 1e-6f;

enum class Role : int8_t { kIgnored, kNegative, kPositive };

struct Sizes {
  int64_t num_anchors, num_labels, label_width, num_classes;
};

// Offsets of arrays for one image in the scratch memory of a thread. `overlaps` has a row of
// anchors per label.
struct Memory {
  size_t overlaps, best_overlap, best_label, role, label_anchor, entries, room, bytes;
  explicit Memory(const Sizes& s) {
    cpu::ScratchPlan plan;
    overlaps = plan.add<float>(s.num_labels * s.num_anchors);
    best_overlap = plan.add<float>(s.num_anchors);
    best_label = plan.add<int32_t>(s.num_anchors);
    role = plan.add<Role>(s.num_anchors);
    label_anchor = plan.add<int64_t>(s.num_labels);
    entries = plan.add<cpu::NarrowEntry>(s.num_anchors);
    room = plan.add<cpu::NarrowEntry>(s.num_anchors);
    bytes = plan.bytes();
  }
};

// The anchors of one image with the results of matching so far.
template <class T>
struct MultiboxTargetImage {
  const MultiBoxTargetParams& params;
  const Sizes& sizes;
  const T* anchors;
  const T* labels;
  int64_t num_valid = 0;  // number of labels before the first one of class -1
  float* overlaps;
  float* best_overlap;  // best overlap of each anchor that has a label
  int32_t* best_label;
  Role* role;
  int64_t* label_anchor;  // nearest free anchor of each label, or -1
  cpu::NarrowEntry *entries, *room;

  MultiboxTargetImage(const MultiBoxTargetParams& p, const Sizes& s, const Memory& memory,
                      std::byte* block)
      : params(p),
        sizes(s),
        overlaps(cpu::part<float>(block, memory.overlaps)),
        best_overlap(cpu::part<float>(block, memory.best_overlap)),
        best_label(cpu::part<int32_t>(block, memory.best_label)),
        role(cpu::part<Role>(block, memory.role)),
        label_anchor(cpu::part<int64_t>(block, memory.label_anchor)),
        entries(cpu::part<cpu::NarrowEntry>(block, memory.entries)),
        room(cpu::part<cpu::NarrowEntry>(block, memory.room)) {}

  const T* label(int64_t k) const { return labels + k * sizes.label_width; }
  float* overlap_row(int64_t k) const { return overlaps + k * sizes.num_anchors; }
};

template <class T>
void compute_overlaps(const MultiboxTargetImage<T>& image) {
  using Acc = ComputeType<T>;
  const auto at = [](const T* from, int i) { return static_cast<Acc>(from[i]); };
  for (int64_t k = 0; k < image.num_valid; ++k) {
    const T* const label = image.label(k) + 1;
    const Acc left = at(label, 0), top = at(label, 1), right = at(label, 2), bottom = at(label, 3);
    const Acc label_area = (right - left) * (bottom - top);
    float* const to = image.overlap_row(k);
    for (int64_t j = 0; j < image.sizes.num_anchors; ++j) {
      const T* const a = image.anchors + 4 * j;
      const Acc width = std::min(at(a, 2), right) - std::max(at(a, 0), left);
      const Acc height = std::min(at(a, 3), bottom) - std::max(at(a, 1), top);
      const Acc common = std::max(Acc(0), width) * std::max(Acc(0), height);
      const Acc all = (at(a, 2) - at(a, 0)) * (at(a, 3) - at(a, 1)) + label_area - common;
      to[j] = static_cast<float>(all == 0 ? Acc(0) : common / all);
    }
  }
}

// Finds the first anchor that overlaps most with label k. NaN never counts.
template <class T>
int64_t nearest_anchor(const MultiboxTargetImage<T>& image, int64_t k) {
  const float* const row = image.overlap_row(k);
  int64_t best = -1;
  float most = kLeastOverlap;
  for (int64_t j = 0; j < image.sizes.num_anchors; ++j)
    if (row[j] > most) {
      most = row[j];
      best = j;
    }
  return best;
}

// Repeatedly matches the unmatched label and the unmatched anchor with the largest overlap. Returns
// the number of pairs.
template <class T>
int64_t match_labels(const MultiboxTargetImage<T>& image) {
  for (int64_t k = 0; k < image.num_valid; ++k) image.label_anchor[k] = nearest_anchor(image, k);
  for (int64_t matched = 0;; ++matched) {
    int64_t label = -1, anchor = -1;
    float most = kLeastOverlap;
    for (int64_t k = 0; k < image.num_valid; ++k) {
      const int64_t j = image.label_anchor[k];
      if (j < 0) continue;
      const float overlap = image.overlap_row(k)[j];
      if (overlap > most || (overlap == most && j < anchor)) {
        most = overlap;
        label = k;
        anchor = j;
      }
    }
    if (label < 0) return matched;
    image.role[anchor] = Role::kPositive;
    image.best_label[anchor] = static_cast<int32_t>(label);
    image.label_anchor[label] = -1;
    for (int64_t k = 0; k < image.num_valid; ++k) {
      image.overlap_row(k)[anchor] = kNoOverlap;
      if (image.label_anchor[k] == anchor) image.label_anchor[k] = nearest_anchor(image, k);
    }
  }
}

// Finds the first label that overlaps most, for every anchor that match_labels has left unmatched.
template <class T>
void find_best_labels(const MultiboxTargetImage<T>& image) {
  const int64_t count = image.sizes.num_anchors;
  std::fill_n(image.best_overlap, count, kNoOverlap);
  for (int64_t k = 0; k < image.num_valid; ++k) {
    const float* const row = image.overlap_row(k);
    for (int64_t j = 0; j < count; ++j) {
      const bool better = row[j] > image.best_overlap[j];
      image.best_overlap[j] = better ? row[j] : image.best_overlap[j];
      image.best_label[j] = better ? static_cast<int32_t>(k) : image.best_label[j];
    }
  }
}

// Computes the probability of background for the anchors [begin, begin + count).
template <class T>
void background_probabilities(const T* predictions, const Sizes& s, int64_t count,
                              ComputeType<T>* to) {
  using Acc = ComputeType<T>;
  Acc largest[kMultiboxTargetBlock], sum[kMultiboxTargetBlock];
  for (int64_t c = 0; c < s.num_classes; ++c)
    for (int64_t i = 0; i < count; ++i) {
      const Acc x = static_cast<Acc>(predictions[c * s.num_anchors + i]);
      largest[i] = c == 0 || x > largest[i] ? x : largest[i];
    }
  std::fill_n(sum, count, Acc(0));
  for (int64_t c = 0; c < s.num_classes; ++c)
    for (int64_t i = 0; i < count; ++i)
      sum[i] +=
          pointwise::exp_of(static_cast<Acc>(predictions[c * s.num_anchors + i]) - largest[i]);
  for (int64_t i = 0; i < count; ++i)
    to[i] = pointwise::exp_of(static_cast<Acc>(predictions[i]) - largest[i]) / sum[i];
}

// Hard negative mining: marks the background anchors with the lowest background probability as
// negative.
template <class T>
void mine_negatives(const MultiboxTargetImage<T>& image, const T* predictions,
                    int64_t num_positive) {
  const auto& p = image.params;
  const int64_t num_anchors = image.sizes.num_anchors;
  int64_t wanted =
      cpu::clamp_index(static_cast<float>(num_positive) * p.negative_mining_ratio, 0, num_anchors);
  wanted = std::max<int64_t>(wanted, p.minimum_negative_samples);
  if (wanted <= 0) return;
  int64_t count = 0;
  for (int64_t begin = 0; begin < num_anchors; begin += kMultiboxTargetBlock) {
    const int64_t end = std::min(begin + kMultiboxTargetBlock, num_anchors);
    ComputeType<T> background[kMultiboxTargetBlock];
    background_probabilities(predictions + begin, image.sizes, end - begin, background);
    for (int64_t j = begin; j < end; ++j)
      if (image.role[j] != Role::kPositive && image.best_overlap[j] < p.negative_mining_thresh)
        image.entries[count++] =
            cpu::NarrowEntry::make(cpu::order_key(static_cast<float>(background[j - begin])), j);
  }
  wanted = std::min(wanted, count);
  const cpu::NarrowEntry* const sorted = cpu::sort_first(image.entries, image.room, count, wanted);
  for (int64_t i = 0; i < wanted; ++i) image.role[sorted[i].index()] = Role::kNegative;
}

template <class T>
void assign_roles(const MultiboxTargetImage<T>& image, const T* predictions) {
  const auto& p = image.params;
  const bool mining = p.negative_mining_ratio > 0;
  const int64_t num_anchors = image.sizes.num_anchors;
  std::fill_n(image.role, num_anchors, mining ? Role::kIgnored : Role::kNegative);
  compute_overlaps(image);
  int64_t num_positive = match_labels(image);
  if (p.overlap_threshold > 0 || mining) find_best_labels(image);
  if (p.overlap_threshold > 0)
    for (int64_t j = 0; j < num_anchors; ++j)
      if (image.role[j] != Role::kPositive && image.best_overlap[j] > p.overlap_threshold) {
        image.role[j] = Role::kPositive;
        ++num_positive;
      }
  if (mining) mine_negatives(image, predictions, num_positive);
}

template <class T>
void encode_target(const std::vector<double>& variances, const T* anchor, const T* box, T* to) {
  using Acc = ComputeType<T>;
  const auto at = [](const T* from, int i) { return static_cast<Acc>(from[i]); };
  const Acc width = at(anchor, 2) - at(anchor, 0), height = at(anchor, 3) - at(anchor, 1);
  const Acc x = (at(anchor, 0) + at(anchor, 2)) / 2, y = (at(anchor, 1) + at(anchor, 3)) / 2;
  const Acc box_width = at(box, 2) - at(box, 0), box_height = at(box, 3) - at(box, 1);
  const Acc box_x = (at(box, 0) + at(box, 2)) / 2, box_y = (at(box, 1) + at(box, 3)) / 2;
  const Acc encoded[4] = {(box_x - x) / width, (box_y - y) / height, std::log(box_width / width),
                          std::log(box_height / height)};
  for (int i = 0; i < 4; ++i)
    to[i] = static_cast<T>(encoded[i] / static_cast<Acc>(variances[static_cast<size_t>(i)]));
}

// Computes the targets of one image. Initially, location and mask are zeros and classes are the
// label to ignore.
template <class T>
void write_targets(const MultiboxTargetImage<T>& image, T* location, T* mask, T* classes) {
  using Acc = ComputeType<T>;
  for (int64_t j = 0; j < image.sizes.num_anchors; ++j) {
    if (image.role[j] == Role::kNegative) classes[j] = T(0.0f);
    if (image.role[j] != Role::kPositive) continue;
    const T* const label = image.label(image.best_label[j]);
    classes[j] = static_cast<T>(static_cast<Acc>(label[0]) + 1);
    std::fill_n(mask + 4 * j, 4, T(1.0f));
    encode_target(image.params.variances, image.anchors + 4 * j, label + 1, location + 4 * j);
  }
}

template <class T>
void make_targets(KernelContext& ctx, const MultiBoxTargetParams& p, Inputs in, Outputs out) {
  using Acc = ComputeType<T>;
  const Sizes sizes{in[0].shape[1], in[1].shape[1], in[1].shape[2], in[2].shape[1]};
  const int64_t images = in[1].shape[0], num_anchors = sizes.num_anchors;
  const Memory memory(sizes);
  const auto threads = static_cast<size_t>(std::min<int64_t>(cpu_threads(), images));
  auto* const block = static_cast<std::byte*>(ctx.scratch(memory.bytes * threads));
  const int64_t work = num_anchors * (sizes.num_labels + sizes.num_classes) * 2;
  cpu::parallel_ranges(images, work, [&](int64_t begin, int64_t end, int thread) {
    MultiboxTargetImage<T> image(p, sizes, memory,
                                 block + memory.bytes * static_cast<size_t>(thread));
    image.anchors = in[0].as<T>();
    for (int64_t i = begin; i < end; ++i) {
      T* const location = out[0].as<T>() + i * num_anchors * 4;
      T* const mask = out[1].as<T>() + i * num_anchors * 4;
      T* const classes = out[2].as<T>() + i * num_anchors;
      std::fill_n(location, num_anchors * 4, T(0.0f));
      std::fill_n(mask, num_anchors * 4, T(0.0f));
      std::fill_n(classes, num_anchors, T(p.ignore_label));
      image.labels = in[1].as<T>() + i * sizes.num_labels * sizes.label_width;
      image.num_valid = 0;
      while (image.num_valid < sizes.num_labels &&
             static_cast<Acc>(image.label(image.num_valid)[0]) != Acc(-1))
        ++image.num_valid;
      if (image.num_valid == 0) continue;
      assign_roles(image, in[2].as<T>() + i * sizes.num_classes * num_anchors);
      write_targets(image, location, mask, classes);
    }
  });
}

void target_native(KernelContext& ctx, const MultiBoxTargetParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  dispatch_floating("_contrib_MultiBoxTarget", out[0].dtype,
                    [&]<class T>(T) { make_targets<T>(ctx, p, in, out); });
}

}  // namespace

static const Registration multibox_target_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&target_native>("_contrib_MultiBoxTarget", {.inline_ok = false});
});

}  // namespace mxlite
