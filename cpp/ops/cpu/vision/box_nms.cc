#include "cpp/ops/vision/box_nms.h"

#include <cstring>

#include "cpp/ops/cpu/ordering.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/cpu/vision/boxes.h"
#include "cpp/ops/cpu/vision/suppression.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using cpu::Candidate;
using cpu::KeptBoxes;

template <class T>
Candidate<ComputeType<T>> load_candidate(const BoxNmsParams& p, const T* row) {
  using Acc = ComputeType<T>;
  const auto box = p.in_format == BoxFormat::kCorner
                       ? cpu::load_box<BoxFormat::kCorner, Acc>(row + p.coord_start)
                       : cpu::load_box<BoxFormat::kCenter, Acc>(row + p.coord_start);
  int32_t group = 0;
  if (p.id_index >= 0 && !p.force_suppress) {
    const Acc id = static_cast<Acc>(row[p.id_index]);  // class ids are truncated to integers
    group = std::abs(id) < Acc(2147483648.0) ? static_cast<int32_t>(id)
                                             : std::numeric_limits<int32_t>::min();
  }
  return {box.x.low, box.y.low, box.x.high, box.y.high, box.area, group};
}

// Does not change boxes with a negative left edge, because MXNet 1.x takes them for rows filled
// with -1.
template <class T>
void change_format(BoxFormat to, T* box) {
  using Acc = ComputeType<T>;
  const Acc a = static_cast<Acc>(box[0]), b = static_cast<Acc>(box[1]);
  const Acc c = static_cast<Acc>(box[2]), d = static_cast<Acc>(box[3]);
  if (a < 0) return;
  const bool center = to == BoxFormat::kCenter;
  box[0] = static_cast<T>(center ? (a + c) / 2 : a - c / 2);
  box[1] = static_cast<T>(center ? (b + d) / 2 : b - d / 2);
  box[2] = static_cast<T>(center ? c - a : a + c / 2);
  box[3] = static_cast<T>(center ? d - b : b + d / 2);
}

// Memory that one thread needs for one image.
template <class T>
struct BoxNmsImageMemory {
  using Entry = cpu::EntryOf<T>;
  size_t entries, room, kept, bytes;
  BoxNmsImageMemory(int64_t num_boxes, int64_t limit) {
    cpu::ScratchPlan plan;
    entries = plan.add<Entry>(num_boxes);
    room = plan.add<Entry>(num_boxes);
    kept = plan.add(KeptBoxes<ComputeType<T>>::bytes(limit));
    bytes = plan.bytes();
  }
};

struct BoxNmsImage {
  int64_t first_row, num_boxes, width, limit;  // limit: number of boxes that are compared
};

template <class T>
void nms_image(const BoxNmsParams& p, const BoxNmsImage& image, const BoxNmsImageMemory<T>& memory,
               void* block, const T* data, T* out, int64_t* source) {
  using Acc = ComputeType<T>;
  using Entry = cpu::EntryOf<T>;
  auto* const entries = cpu::part<Entry>(block, memory.entries);
  const Acc least = static_cast<Acc>(T(p.valid_thresh));
  const Acc background = static_cast<Acc>(T(static_cast<Acc>(p.background_id)));
  int64_t count = 0;
  for (int64_t i = 0; i < image.num_boxes; ++i) {
    const T* const row = data + i * image.width;
    const bool background_row = p.id_index >= 0 && static_cast<Acc>(row[p.id_index]) == background;
    if (static_cast<Acc>(row[p.score_index]) > least && !background_row)
      entries[count++] = Entry::make(cpu::falling_key(row[p.score_index]), i);
  }
  const int64_t candidates = std::min(count, image.limit);
  const Entry* const sorted =
      cpu::sort_first(entries, cpu::part<Entry>(block, memory.room), count, candidates);

  KeptBoxes<Acc> kept(cpu::part<std::byte>(block, memory.kept), image.limit);
  const auto overlap_thresh = p.overlap_thresh;
  for (int64_t i = 0; i < candidates; ++i) {
    const T* const row = data + sorted[i].index() * image.width;
    const Candidate<Acc> candidate = load_candidate(p, row);
    const bool drop = kept.any(candidate, [=](const Candidate<Acc>& a, const Candidate<Acc>& b) {
      const Acc common = cpu::common_length<Acc>({a.left, a.right}, {b.left, b.right}) *
                         cpu::common_length<Acc>({a.top, a.bottom}, {b.top, b.bottom});
      return common / (a.area + b.area - common) > overlap_thresh;
    });
    if (drop) continue;
    T* const to = out + kept.size() * image.width;
    std::copy_n(row, image.width, to);
    if (p.in_format != p.out_format) change_format(p.out_format, to + p.coord_start);
    source[kept.size()] = image.first_row + sorted[i].index();
    kept.push_back(candidate);
  }
  std::fill(out + kept.size() * image.width, out + image.num_boxes * image.width, T(-1));
  std::fill(source + kept.size(), source + image.num_boxes, int64_t{-1});
}

template <class T>
void nms_all(KernelContext& ctx, const BoxNmsParams& p, Inputs in, Outputs out) {
  const Shape& shape = in[0].shape;
  const int64_t num_boxes = shape[shape.ndim() - 2], width = shape.back();
  const int64_t images = in[0].size() / (num_boxes * width);
  const int64_t limit = p.topk < 0 ? num_boxes : std::min<int64_t>(p.topk, num_boxes);
  const BoxNmsImageMemory<T> memory(num_boxes, limit);
  const int threads = static_cast<int>(std::min<int64_t>(cpu_threads(), images));
  auto* const block = static_cast<std::byte*>(ctx.scratch(memory.bytes * threads));
  cpu::parallel_ranges(images, num_boxes * 64, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * num_boxes;
      nms_image<T>(p, {first, num_boxes, width, limit}, memory, block + memory.bytes * thread,
                   in[0].as<T>() + first * width, out[0].as<T>() + first * width,
                   out[1].as<int64_t>() + first);
    }
  });
}

void nms_native(KernelContext& ctx, const BoxNmsParams& p, Inputs in, Outputs out) {
  if (in[0].size() == 0) return;
  if (p.topk == 0) {
    cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
    for (int64_t i = 0; i < out[1].size(); ++i) out[1].as<int64_t>()[i] = i;
    return;
  }
  dispatch_floating("_contrib_box_nms", in[0].dtype,
                    [&]<class T>(T) { nms_all<T>(ctx, p, in, out); });
}

void nms_backward(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  cpu::zero_fill(out[0].data, out[0].bytes());
  const int64_t rows = in[1].size();
  const size_t row_bytes = out[0].bytes() / static_cast<size_t>(rows);
  cpu::parallel_for(rows, out[0].shape.back(), [&](int64_t i) {
    const int64_t row = in[1].as<int64_t>()[i];
    if (row < 0) return;
    std::memcpy(out[0].as<char>() + static_cast<size_t>(row) * row_bytes,
                in[0].as<char>() + static_cast<size_t>(i) * row_bytes, row_bytes);
  });
}

}  // namespace

static const Registration box_nms_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&nms_native>("_contrib_box_nms", {.inline_ok = false});
  ops.cpu_kernel<&nms_backward>("_box_nms_backward");
});

}  // namespace mxlite
