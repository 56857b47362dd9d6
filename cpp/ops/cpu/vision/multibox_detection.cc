#include <algorithm>
#include <cmath>

#include "cpp/ops/cpu/ordering.h"
#include "cpp/ops/cpu/vision/suppression.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/multibox.h"

namespace mxlite {
namespace {

using cpu::Candidate;
using cpu::KeptBoxes;

constexpr int64_t kRow = 6;        // class, probability, xmin, ymin, xmax, ymax
constexpr int64_t kBlock = 256;    // number of anchors whose classes are compared together
constexpr float kNoClass = -1.0f;  // class of a row that is not a detection

template <class T>
struct Best {
  ComputeType<T> score[kBlock];
  int32_t id[kBlock];
};

// Finds the most probable class except background, or 0 if all probabilities are NaN or at most -1.
template <class T>
void best_classes(const T* probabilities, int64_t num_classes, int64_t num_anchors, int64_t count,
                  Best<T>& best) {
  using Acc = ComputeType<T>;
  std::fill_n(best.score, count, Acc(-1));
  std::fill_n(best.id, count, 0);
  for (int64_t c = 1; c < num_classes; ++c) {
    const T* const row = probabilities + c * num_anchors;
    for (int64_t i = 0; i < count; ++i) {
      const Acc score = static_cast<Acc>(row[i]);
      const bool better = score > best.score[i];
      best.id[i] = better ? static_cast<int32_t>(c) : best.id[i];
      best.score[i] = better ? score : best.score[i];
    }
  }
}

template <class T>
void decode_detection(const MultiBoxDetectionParams& p, const T* anchor, const T* offset, T* box) {
  using Acc = ComputeType<T>;
  const auto at = [](const T* from, int i) { return static_cast<Acc>(from[i]); };
  const auto variance = [&](size_t i) { return static_cast<Acc>(p.variances[i]); };
  const Acc width = at(anchor, 2) - at(anchor, 0), height = at(anchor, 3) - at(anchor, 1);
  const Acc x = at(offset, 0) * variance(0) * width + (at(anchor, 0) + at(anchor, 2)) / 2;
  const Acc y = at(offset, 1) * variance(1) * height + (at(anchor, 1) + at(anchor, 3)) / 2;
  const Acc half_width = std::exp(at(offset, 2) * variance(2)) * width / 2;
  const Acc half_height = std::exp(at(offset, 3) * variance(3)) * height / 2;
  const Acc corners[4] = {x - half_width, y - half_height, x + half_width, y + half_height};
  for (int i = 0; i < 4; ++i)
    box[i] = static_cast<T>(p.clip ? std::max(Acc(0), std::min(Acc(1), corners[i])) : corners[i]);
}

// Computes the rows of the anchors [begin, end) of one image.
template <class T>
void detect_block(const MultiBoxDetectionParams& p, Inputs in, int64_t image, int64_t begin,
                  int64_t end, T* rows) {
  using Acc = ComputeType<T>;
  const int64_t num_classes = in[0].shape[1], num_anchors = in[0].shape[2];
  Best<T> best;
  best_classes(in[0].as<T>() + image * num_classes * num_anchors + begin, num_classes, num_anchors,
               end - begin, best);
  for (int64_t i = begin; i < end; ++i, rows += kRow) {
    const Acc score = best.score[i - begin];
    const int32_t id = best.id[i - begin];
    const bool detected = id > 0 && !(score < p.threshold);
    rows[0] = static_cast<T>(static_cast<Acc>(detected ? static_cast<float>(id - 1) : kNoClass));
    if (!detected) continue;
    rows[1] = static_cast<T>(score);
    decode_detection(p, in[2].as<T>() + 4 * i, in[1].as<T>() + (image * num_anchors + i) * 4,
                     rows + 2);
  }
}

template <class T>
Candidate<ComputeType<T>> load_detection(const T* row, bool one_group) {
  using Acc = ComputeType<T>;
  const Acc left = static_cast<Acc>(row[2]), top = static_cast<Acc>(row[3]);
  const Acc right = static_cast<Acc>(row[4]), bottom = static_cast<Acc>(row[5]);
  return {left,
          top,
          right,
          bottom,
          (right - left) * (bottom - top),
          one_group ? 0 : static_cast<int32_t>(static_cast<Acc>(row[0]))};
}

// Memory that one thread needs to sort and suppress the detections of one image.
template <class T>
struct MultiboxDetectionImageMemory {
  size_t entries, room, kept, bytes;
  explicit MultiboxDetectionImageMemory(int64_t num_anchors) {
    cpu::ScratchPlan plan;
    entries = plan.add<cpu::EntryOf<T>>(num_anchors);
    room = plan.add<cpu::EntryOf<T>>(num_anchors);
    kept = plan.add(KeptBoxes<ComputeType<T>>::bytes(num_anchors));
    bytes = plan.bytes();
  }
};

template <class T>
void suppress(const MultiBoxDetectionParams& p, T* out, int64_t count,
              KeptBoxes<ComputeType<T>> kept) {
  using Acc = ComputeType<T>;
  const float threshold = p.nms_threshold;
  for (int64_t i = 0; i < count; ++i) {
    const Candidate<Acc> candidate = load_detection(out + i * kRow, p.force_suppress);
    const bool drop = kept.any(candidate, [=](const Candidate<Acc>& a, const Candidate<Acc>& b) {
      const Acc width = std::max(Acc(0), std::min(a.right, b.right) - std::max(a.left, b.left));
      const Acc height = std::max(Acc(0), std::min(a.bottom, b.bottom) - std::max(a.top, b.top));
      const Acc common = width * height, all = a.area + b.area - common;
      return (all <= 0 ? Acc(0) : common / all) >= threshold;
    });
    if (drop)
      out[i * kRow] = T(kNoClass);
    else
      kept.push_back(candidate);
  }
}

// `rows` has a row per anchor. Detections are written to the front of `out`.
template <class T>
void collect(const MultiBoxDetectionParams& p, const T* rows, int64_t num_anchors,
             const MultiboxDetectionImageMemory<T>& memory, std::byte* block, T* out) {
  using Entry = cpu::EntryOf<T>;
  auto* const entries = cpu::part<Entry>(block, memory.entries);
  int64_t count = 0;
  for (int64_t i = 0; i < num_anchors; ++i) {
    const T* const row = rows + i * kRow;
    if (static_cast<ComputeType<T>>(row[0]) < 0) continue;
    std::copy_n(row, kRow, out + count * kRow);
    entries[count++] = Entry::make(cpu::falling_key(row[1]), i);
  }
  std::fill(out + count * kRow, out + num_anchors * kRow, T(-1));
  if (count == 0 || !(p.nms_threshold > 0 && p.nms_threshold <= 1)) return;

  const int64_t compared = p.nms_topk > 0 ? std::min<int64_t>(p.nms_topk, count) : count;
  const Entry* const sorted =
      cpu::sort_first(entries, cpu::part<Entry>(block, memory.room), count, compared);
  for (int64_t i = 0; i < compared; ++i)
    std::copy_n(rows + sorted[i].index() * kRow, kRow, out + i * kRow);
  for (int64_t i = compared; i < count; ++i) out[i * kRow] = T(kNoClass);
  suppress(p, out, compared, {cpu::part<std::byte>(block, memory.kept), num_anchors});
}

template <class T>
void detect(KernelContext& ctx, const MultiBoxDetectionParams& p, Inputs in, const TensorRef& out) {
  const int64_t images = out.shape[0], num_anchors = out.shape[1];
  const MultiboxDetectionImageMemory<T> memory(num_anchors);
  const auto threads = static_cast<size_t>(std::min<int64_t>(cpu_threads(), images));
  cpu::ScratchPlan plan;
  const size_t rows_at = plan.add<T>(out.size());
  const size_t images_at = plan.add(memory.bytes * threads);
  void* const block = ctx.scratch(plan.bytes());
  T* const rows = cpu::part<T>(block, rows_at);

  const int64_t blocks = (num_anchors + kBlock - 1) / kBlock;
  cpu::parallel_for(images * blocks, kBlock * (in[0].shape[1] + 16), [&](int64_t i) {
    const int64_t image = i / blocks, begin = i % blocks * kBlock;
    detect_block(p, in, image, begin, std::min(begin + kBlock, num_anchors),
                 rows + (image * num_anchors + begin) * kRow);
  });
  cpu::parallel_ranges(images, num_anchors * 64, [&](int64_t begin, int64_t end, int thread) {
    auto* const own =
        cpu::part<std::byte>(block, images_at + memory.bytes * static_cast<size_t>(thread));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * num_anchors * kRow;
      collect(p, rows + first, num_anchors, memory, own, out.as<T>() + first);
    }
  });
}

void detection_native(KernelContext& ctx, const MultiBoxDetectionParams& p, Inputs in,
                      Outputs out) {
  dispatch_floating("_contrib_MultiBoxDetection", out[0].dtype,
                    [&]<class T>(T) { detect<T>(ctx, p, in, out[0]); });
}

}  // namespace

static const Registration multibox_detection_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&detection_native>("_contrib_MultiBoxDetection", {.inline_ok = false});
});

}  // namespace mxlite
