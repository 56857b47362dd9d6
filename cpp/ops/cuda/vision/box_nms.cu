// Non-maximum suppression of boxes, in descending order of scores.
#include "cpp/ops/cuda/vision/suppression.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/box_nms.h"

namespace mxlite::cuda {
namespace {

struct NmsArgs {
  const void* data;
  void* out;
  int64_t* source;
  DType dtype;
  int64_t first_image, images;  // range of images that this pass processes
  int64_t boxes, width, limit, padded;
  int coord_start, score_index, id_index;
  bool corner_in, corner_out, one_group, has_background;
  float overlap_thresh;
  double least, background;
  Ranked* entries;
  __device__ int64_t first_row(int64_t image) const { return (first_image + image) * boxes; }
};

template <class C>
__device__ RankedBox<C> load_box(const NmsArgs& a, int64_t row) {
  C v[4];
  for (int k = 0; k < 4; ++k) v[k] = load_as<C>(a.data, a.dtype, row * a.width + a.coord_start + k);
  if (!a.corner_in) {
    const C x = v[2] / 2, y = v[3] / 2, area = v[2] < 0 || v[3] < 0 ? C(0) : v[2] * v[3];
    return {v[0] - x, v[1] - y, v[0] + x, v[1] + y, area, 0};
  }
  const C width = v[2] - v[0], height = v[3] - v[1];
  return {v[0], v[1], v[2], v[3], width < 0 || height < 0 ? C(0) : width * height, 0};
}

// Boxes with a negative first coordinate do not change, because 1.x treats them as rows of -1.
template <class C>
__device__ void change_format(const NmsArgs& a, C (&v)[4]) {
  if (a.corner_in == a.corner_out || v[0] < C(0)) return;
  const bool center = !a.corner_out;
  const C box[4] = {v[0], v[1], v[2], v[3]};
  for (int k = 0; k < 2; ++k) {
    v[k] = center ? (box[k] + box[k + 2]) / 2 : box[k] - box[k + 2] / 2;
    v[k + 2] = center ? box[k + 2] - box[k] : box[k] + box[k + 2] / 2;
  }
}

template <class C>
__global__ void rank_rows(int64_t n, const __grid_constant__ NmsArgs a) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t i = at % a.padded;
    Ranked entry{kLastKey, i};
    if (i < a.boxes) {
      const int64_t from = (a.first_row(at / a.padded) + i) * a.width;
      const double score = static_cast<double>(load_as<C>(a.data, a.dtype, from + a.score_index));
      const bool background =
          a.has_background &&
          static_cast<double>(load_as<C>(a.data, a.dtype, from + a.id_index)) == a.background;
      if (score > a.least && !background) entry.key = falling_key(score);
    }
    a.entries[at] = entry;
  }
}

template <class C>
__global__ void load_ranked(int64_t n, const __grid_constant__ NmsArgs a,
                            const __grid_constant__ Suppression<C> s) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t image = at / a.limit, i = at % a.limit;
    s.count_valid(a.entries, a.padded, image, i);
    const Ranked entry = a.entries[image * a.padded + i];
    if (entry.key == kLastKey) continue;
    const int64_t row = a.first_row(image) + entry.index;
    RankedBox<C> box = load_box<C>(a, row);
    if (!a.one_group) {  // class ids are truncated to integers
      const C id = load_as<C>(a.data, a.dtype, row * a.width + a.id_index);
      box.group = std::fabs(id) < C(2147483648.0) ? static_cast<int32_t>(id) : INT32_MIN;
    }
    s.boxes[at] = box;
  }
}

template <class C>
struct DropsByOverlap {
  C threshold;
  __device__ bool operator()(const RankedBox<C>& b, const RankedBox<C>& c) const {
    const C common = common_length(b.left, b.right, c.left, c.right) *
                     common_length(b.top, b.bottom, c.top, c.bottom);
    return common / (b.area + c.area - common) > threshold;
  }
};

// Thread i of an image writes the box with rank i by score if it is kept, and fills row i of the
// output with -1 if fewer boxes are kept.
template <class C>
__global__ void write_kept(int64_t n, const __grid_constant__ NmsArgs a,
                           const __grid_constant__ Suppression<C> s) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t image = at / a.boxes, i = at % a.boxes, first = a.first_row(image);
    const int64_t place = i < a.limit ? s.place(image, i) : -1;
    if (place >= 0) {
      const int64_t row = first + a.entries[image * a.padded + i].index;
      const int64_t from = row * a.width, to = (first + place) * a.width;
      for (int64_t k = 0; k < a.width; ++k)
        store_as<C>(a.out, a.dtype, to + k, load_as<C>(a.data, a.dtype, from + k));
      C v[4];
      for (int k = 0; k < 4; ++k) v[k] = load_as<C>(a.data, a.dtype, from + a.coord_start + k);
      change_format(a, v);
      for (int k = 0; k < 4; ++k) store_as<C>(a.out, a.dtype, to + a.coord_start + k, v[k]);
      a.source[first + place] = row;
    }
    if (i < s.sizes[image]) continue;
    for (int64_t k = 0; k < a.width; ++k)
      store_as<C>(a.out, a.dtype, (first + i) * a.width + k, C(-1));
    a.source[first + i] = -1;
  }
}

template <class C>
void nms_pass(KernelContext& ctx, NmsArgs a) {
  ScratchPlan plan;
  const size_t entries = plan.add(static_cast<size_t>(a.images * a.padded) * sizeof(Ranked));
  const SuppressionMemory<C> memory(plan, a.images, a.limit);
  void* const block = ctx.scratch(plan.bytes());
  a.entries = part<Ranked>(block, entries);
  const Suppression<C> s = memory.place(ctx, block);
  const int64_t num_entries = a.images * a.padded, num_ranked = a.images * a.limit;
  launch_items(ctx, rank_rows<C>, num_entries, num_entries, a);
  sort_ranked_lists(ctx, a.entries, a.images, a.padded);
  launch_items(ctx, load_ranked<C>, num_ranked, num_ranked, a, s);
  suppress(ctx, s, DropsByOverlap<C>{static_cast<C>(a.overlap_thresh)});
  launch_items(ctx, write_kept<C>, a.images * a.boxes, a.images * a.boxes, a, s);
}

__global__ void count_up(int64_t n, int64_t* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) out[i] = i;
}

double as_stored(DType dtype, double v) {
  double stored = v;
  dispatch_floating("_contrib_box_nms", dtype, [&]<class T>(T) {
    stored = static_cast<double>(static_cast<T>(static_cast<ComputeType<T>>(v)));
  });
  return stored;
}

void box_nms(KernelContext& ctx, const BoxNmsParams& p, Inputs in, Outputs out) {
  if (in[0].size() == 0) return;
  if (p.topk == 0) {
    copy_bytes(ctx, out[0].data, in[0].data, out[0].bytes());
    return launch_items(ctx, count_up, out[1].size(), out[1].size(), out[1].as<int64_t>());
  }
  const Shape& shape = in[0].shape;
  NmsArgs a{};
  a.data = in[0].data;
  a.out = out[0].data;
  a.source = out[1].as<int64_t>();
  a.dtype = in[0].dtype;
  a.boxes = shape[shape.ndim() - 2];
  a.width = shape.back();
  a.limit = p.topk < 0 ? a.boxes : std::min<int64_t>(p.topk, a.boxes);
  a.padded = power_of_two_from(a.boxes);
  a.coord_start = p.coord_start;
  a.score_index = p.score_index;
  a.id_index = p.id_index;
  a.corner_in = p.in_format == BoxFormat::kCorner;
  a.corner_out = p.out_format == BoxFormat::kCorner;
  a.one_group = p.id_index < 0 || p.force_suppress;
  a.has_background = p.id_index >= 0;
  a.overlap_thresh = p.overlap_thresh;
  a.least = as_stored(a.dtype, static_cast<double>(p.valid_thresh));
  a.background = as_stored(a.dtype, p.background_id);
  const int64_t images = in[0].size() / (a.boxes * a.width);
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    const int64_t bytes = a.padded * static_cast<int64_t>(sizeof(Ranked)) +
                          SuppressionMemory<C>::image_bytes(a.limit);
    const int64_t step = images_per_pass(images, a.limit, bytes);
    for (a.first_image = 0; a.first_image < images; a.first_image += step) {
      a.images = std::min(step, images - a.first_image);
      nms_pass<C>(ctx, a);
    }
  });
}

__global__ void scatter_rows(int64_t n, int64_t width, const void* grad, const int64_t* source,
                             void* out, DType dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t row = source[i / width];
    if (row >= 0) store_any(out, dtype, row * width + i % width, load_any<double>(grad, dtype, i));
  }
}

void box_nms_backward(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  const int64_t n = out[0].size();
  launch_items(ctx, scatter_rows, n, n, out[0].shape.back(), in[0].data, in[1].as<int64_t>(),
               out[0].data, out[0].dtype);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::box_nms>("_contrib_box_nms");
  ops.cuda_kernel<&cuda::box_nms_backward>("_box_nms_backward");
});

}  // namespace mxlite::cuda
