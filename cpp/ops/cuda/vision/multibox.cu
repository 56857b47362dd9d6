// Anchors and detections of single-shot detectors.
#include "cpp/ops/cuda/vision/ranking.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/multibox.h"

namespace mxlite {
namespace cuda {
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

// Half sizes are computed as the CPU does, in the type of computation.
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
                "_contrib_MultiBoxPrior: ", a.kinds, " boxes for each position given, at most ",
                kMostKinds, " on a GPU");
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
  int64_t images, classes, num_anchors, padded;
  float threshold, nms_threshold;
  double variances[4];
  int64_t topk;
  bool clip, one_group, suppresses;
  void* rows;  // rows of all images, in the order of anchors
  Ranked* entries;
  void* boxes;
  uint8_t* dropped;
};

template <class C>
__global__ void decode_kernel(int64_t n, const __grid_constant__ DetectArgs a) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t image = i / a.num_anchors, anchor = i % a.num_anchors;
    const int64_t first = image * a.classes * a.num_anchors + anchor;
    C score = C(-1);  // the most probable class but for the background
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
      offset[k] = load_as<C>(a.offsets, a.dtype, 4 * i + k) * static_cast<C>(a.variances[k]);
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

template <class C>
__device__ void copy_row(const DetectArgs& a, int64_t from, int64_t to) {
  for (int64_t k = 0; k < kRow; ++k)
    store_as<C>(a.out, a.dtype, to * kRow + k, load_as<C>(a.rows, a.dtype, from * kRow + k));
}

template <class C>
__global__ void __launch_bounds__(kThreads) collect_kernel(const __grid_constant__ DetectArgs a) {
  Ranked* const entries = a.entries + blockIdx.x * a.padded;
  auto* const boxes = static_cast<RankedBox<C>*>(a.boxes) + blockIdx.x * a.num_anchors;
  uint8_t* const dropped = a.dropped + blockIdx.x * a.num_anchors;
  for (int64_t image = blockIdx.x; image < a.images; image += gridDim.x) {
    const int64_t first = image * a.num_anchors;
    const auto is_detection = [&](int64_t i) {
      return load_as<C>(a.rows, a.dtype, (first + i) * kRow) >= C(0);
    };
    for (int64_t i = threadIdx.x; i < a.num_anchors; i += blockDim.x) dropped[i] = !is_detection(i);
    __syncthreads();
    const int64_t count = for_kept(dropped, a.num_anchors, [&](int64_t i, int64_t place) {
      copy_row<C>(a, first + i, first + place);
    });
    for (int64_t i = count * kRow + threadIdx.x; i < a.num_anchors * kRow; i += blockDim.x)
      store_as<C>(a.out, a.dtype, first * kRow + i, C(-1));
    if (count == 0 || !a.suppresses) continue;

    for (int64_t i = threadIdx.x; i < a.padded; i += blockDim.x) {
      const bool detection = i < a.num_anchors && is_detection(i);
      entries[i] = {kLastKey, i};
      if (detection)
        entries[i].key =
            falling_key(static_cast<double>(load_as<C>(a.rows, a.dtype, (first + i) * kRow + 1)));
    }
    sort_ranked(entries, a.padded);
    const int64_t compared = a.topk > 0 && a.topk < count ? a.topk : count;
    for (int64_t i = threadIdx.x; i < compared; i += blockDim.x) {
      const int64_t from = first + entries[i].index;
      copy_row<C>(a, from, first + i);
      C v[4];
      for (int k = 0; k < 4; ++k) v[k] = load_as<C>(a.rows, a.dtype, from * kRow + 2 + k);
      const int64_t id = static_cast<int64_t>(load_as<C>(a.rows, a.dtype, from * kRow));
      boxes[i] = {v[0], v[1], v[2], v[3], (v[2] - v[0]) * (v[3] - v[1]), a.one_group ? 0 : id};
      dropped[i] = 0;
    }
    suppress(boxes, dropped, compared, [&](const RankedBox<C>& b, const RankedBox<C>& c) {
      const C common = common_length(b.left, b.right, c.left, c.right) *
                       common_length(b.top, b.bottom, c.top, c.bottom);
      const C all = b.area + c.area - common;
      return (all <= C(0) ? C(0) : common / all) >= static_cast<C>(a.nms_threshold);
    });
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
      if (i >= compared || dropped[i]) store_as<C>(a.out, a.dtype, (first + i) * kRow, C(-1));
    __syncthreads();
  }
}

void detection(KernelContext& ctx, const MultiBoxDetectionParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  DetectArgs a{};
  a.probabilities = in[0].data;
  a.offsets = in[1].data;
  a.anchors = in[2].data;
  a.out = out[0].data;
  a.dtype = out[0].dtype;
  a.images = out[0].shape[0];
  a.classes = in[0].shape[1];
  a.num_anchors = out[0].shape[1];
  a.padded = power_of_two_from(a.num_anchors);
  a.threshold = p.threshold;
  a.nms_threshold = p.nms_threshold;
  for (size_t k = 0; k < 4; ++k) a.variances[k] = p.variances[k];
  a.topk = p.nms_topk;
  a.clip = p.clip;
  a.one_group = p.force_suppress;
  a.suppresses = p.nms_threshold > 0 && p.nms_threshold <= 1;
  const int64_t blocks = std::min(a.images, kMostImageBlocks), own = blocks * a.num_anchors;
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    ScratchPlan plan;
    const size_t rows = plan.add(out[0].bytes());
    const size_t entries = plan.add(static_cast<size_t>(blocks * a.padded) * sizeof(Ranked));
    const size_t boxes = plan.add(static_cast<size_t>(own) * sizeof(RankedBox<C>));
    const size_t dropped = plan.add(static_cast<size_t>(own));
    void* const block = ctx.scratch(plan.bytes());
    a.rows = part<void*>(block, rows);
    a.entries = part<Ranked>(block, entries);
    a.boxes = part<void*>(block, boxes);
    a.dropped = part<uint8_t>(block, dropped);
    const int64_t n = a.images * a.num_anchors;
    launch_items(ctx, decode_kernel<C>, n, n, a);
    launch(ctx, collect_kernel<C>, static_cast<unsigned>(blocks), kThreads, a);
  });
}

}  // namespace
}  // namespace cuda

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  constexpr Kernel kNeverRead = {.strided_inputs = true};
  ops.kernel<&cuda::prior>("_contrib_MultiBoxPrior", DeviceType::kCUDA, kNeverRead);
  ops.kernel<&cuda::detection>("_contrib_MultiBoxDetection", DeviceType::kCUDA);
});

}  // namespace mxlite
