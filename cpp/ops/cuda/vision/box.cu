// Overlaps of boxes, and encoding of boxes relative to anchors.
#include "cpp/ops/cuda/vision/ranking.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/box.h"

namespace mxlite::cuda {
namespace {

template <class C>
struct Edges {
  C left, right, top, bottom, area;
};

template <class C>
__device__ Edges<C> edges_of(const void* data, DType dtype, int64_t box, bool corner) {
  C v[4];
  for (int k = 0; k < 4; ++k) v[k] = load_as<C>(data, dtype, 4 * box + k);
  const C width = corner ? v[2] - v[0] : v[2], height = corner ? v[3] - v[1] : v[3];
  const C area = width < 0 || height < 0 ? C(0) : width * height;  // 0 if corners are swapped
  if (corner) return {v[0], v[2], v[1], v[3], area};
  const C x = v[2] / 2, y = v[3] / 2;
  return {v[0] - x, v[0] + x, v[1] - y, v[1] + y, area};
}

template <class C>
__global__ void box_iou_kernel(int64_t n, int64_t columns, const void* lhs, const void* rhs,
                               void* out, DType dtype, bool corner) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Edges<C> a = edges_of<C>(lhs, dtype, i / columns, corner);
    const Edges<C> b = edges_of<C>(rhs, dtype, i % columns, corner);
    const C common = common_length(a.left, a.right, b.left, b.right) *
                     common_length(a.top, a.bottom, b.top, b.bottom);
    store_as<C>(out, dtype, i, common > C(0) ? common / (a.area + b.area - common) : C(0));
  }
}

void box_iou(KernelContext& ctx, const BoxIouParams& p, Inputs in, Outputs out) {
  const int64_t columns = in[1].size() / 4, n = out[0].size();
  dispatch_float_compute(out[0].dtype, [&]<class C>(C) {
    launch_items(ctx, box_iou_kernel<C>, n, n, columns, in[0].data, in[1].data, out[0].data,
                 out[0].dtype, p.format == BoxFormat::kCorner);
  });
}

// A box given by center and size.
template <class C>
struct Center {
  C x, y, width, height;
};
template <class C>
__device__ Center<C> center_of(const void* data, DType dtype, int64_t box, bool corner = true) {
  C v[4];
  for (int k = 0; k < 4; ++k) v[k] = load_as<C>(data, dtype, 4 * box + k);
  if (!corner) return {v[0], v[1], v[2], v[3]};
  const C width = v[2] - v[0], height = v[3] - v[1];
  return {v[0] + width * C(0.5), v[1] + height * C(0.5), width, height};
}

struct EncodeArgs {
  const void *samples, *matches, *anchors, *refs, *means, *stds;
  void *targets, *masks;
  int64_t boxes, num_anchors, num_refs;
  DType dtype;
};

template <class C>
__global__ void box_encode_kernel(const __grid_constant__ EncodeArgs a) {
  for (int64_t i = global_index(); i < a.boxes; i += grid_stride()) {
    const bool positive = load_as<C>(a.samples, a.dtype, i) > C(0.5);
    C encoded[4] = {0, 0, 0, 0};
    if (positive && a.num_refs > 0) {
      const C match = load_as<C>(a.matches, a.dtype, i);  // clipped to the range of boxes
      const C last = static_cast<C>(a.num_refs - 1);
      const int64_t ref = match > C(0) ? static_cast<int64_t>(match < last ? match : last) : 0;
      const auto from = center_of<C>(a.refs, a.dtype, i / a.num_anchors * a.num_refs + ref);
      const auto anchor = center_of<C>(a.anchors, a.dtype, i);
      encoded[0] = (from.x - anchor.x) / anchor.width;
      encoded[1] = (from.y - anchor.y) / anchor.height;
      encoded[2] = std::log(from.width / anchor.width);
      encoded[3] = std::log(from.height / anchor.height);
      for (int k = 0; k < 4; ++k)
        encoded[k] =
            (encoded[k] - load_as<C>(a.means, a.dtype, k)) / load_as<C>(a.stds, a.dtype, k);
    }
    for (int k = 0; k < 4; ++k) {
      store_as<C>(a.targets, a.dtype, 4 * i + k, encoded[k]);
      store_as<C>(a.masks, a.dtype, 4 * i + k, positive ? C(1) : C(0));
    }
  }
}

void box_encode(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const EncodeArgs a{in[0].data,   in[1].data,     in[2].data,     in[3].data,
                     in[4].data,   in[5].data,     out[0].data,    out[1].data,
                     in[0].size(), in[2].shape[1], in[3].shape[1], out[0].dtype};
  dispatch_float_compute(a.dtype,
                         [&]<class C>(C) { launch_items(ctx, box_encode_kernel<C>, a.boxes, a); });
}

struct DecodeArgs {
  const void *data, *anchors;
  void* out;
  int64_t boxes, num_anchors;
  DType dtype;
  bool corner;
  float stds[4], clip;
};

template <class C>
__global__ void box_decode_kernel(const __grid_constant__ DecodeArgs a) {
  for (int64_t i = global_index(); i < a.boxes; i += grid_stride()) {
    C v[4];
    for (int k = 0; k < 4; ++k)
      v[k] = load_as<C>(a.data, a.dtype, 4 * i + k) * static_cast<C>(a.stds[k]);
    const auto box = center_of<C>(a.anchors, a.dtype, i % a.num_anchors, a.corner);
    const C x = v[0] * box.width + box.x, y = v[1] * box.height + box.y;
    if (const C clip = static_cast<C>(a.clip); clip > C(0))
      for (int k = 2; k < 4; ++k) v[k] = v[k] < clip ? v[k] : clip;
    const C width = std::exp(v[2]) * box.width * C(0.5);
    const C height = std::exp(v[3]) * box.height * C(0.5);
    store_as<C>(a.out, a.dtype, 4 * i, x - width);
    store_as<C>(a.out, a.dtype, 4 * i + 1, y - height);
    store_as<C>(a.out, a.dtype, 4 * i + 2, x + width);
    store_as<C>(a.out, a.dtype, 4 * i + 3, y + height);
  }
}

void box_decode(KernelContext& ctx, const BoxDecodeParams& p, Inputs in, Outputs out) {
  const DecodeArgs a{in[0].data,
                     in[1].data,
                     out[0].data,
                     in[0].size() / 4,
                     in[1].shape[1],
                     out[0].dtype,
                     p.format == BoxFormat::kCorner,
                     {p.std0, p.std1, p.std2, p.std3},
                     p.clip};
  dispatch_float_compute(a.dtype,
                         [&]<class C>(C) { launch_items(ctx, box_decode_kernel<C>, a.boxes, a); });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::box_iou>("_contrib_box_iou");
  ops.cuda_kernel<&cuda::box_encode>("_contrib_box_encode");
  ops.cuda_kernel<&cuda::box_decode>("_contrib_box_decode");
});

}  // namespace mxlite::cuda
