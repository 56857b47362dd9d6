// Arrays whose elements are computed from their index, and strided regions of one value.
#include <cstring>

#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/fill.h"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/walk.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/creation.h"
#include "cpp/ops/tensor/index_array.h"

namespace mxlite::cuda {
namespace {

// Element i is value(i) = first + i / repeat * step; the last element is `last`.
template <class Value>
struct Range {
  Value first, step;
  int64_t repeat;
  bool has_last;
  Value last;
};
template <class Value>
__global__ void range_kernel(int64_t n, Range<Value> r, void* out, DType dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Value v = r.has_last && i > 0 && i == n - 1
                        ? r.last
                        : r.first + static_cast<Value>(i / r.repeat) * r.step;
    store_any<Value>(out, dtype, i, v);
  }
}
template <class Value>
void fill_range(KernelContext& ctx, const Range<Value>& r, const TensorRef& out) {
  launch_items(ctx, range_kernel<Value>, out.size(), out.size(), r, out.data, out.dtype);
}

void arange(KernelContext& ctx, const ArangeParams& p, Inputs, Outputs out) {
  const Number first = p.stop ? p.start : Number(0);
  if (is_floating(out[0].dtype))
    fill_range<double>(ctx, {first, p.step, p.repeat, false, 0}, out[0]);
  else  // as in NumPy, all steps are equal integers
    fill_range<int64_t>(ctx, {first.as<int64_t>(), p.step.as<int64_t>(), p.repeat, false, 0},
                        out[0]);
}

void linspace(KernelContext& ctx, const LinspaceParams& p, Inputs, Outputs out) {
  const int64_t parts = p.endpoint ? p.num - 1 : p.num;
  const double step = parts > 0 ? (p.stop - p.start) / static_cast<double>(parts) : 0.0;
  fill_range<double>(ctx, {p.start, step, 1, p.endpoint, p.stop}, out[0]);
}

void arange_like(KernelContext& ctx, const ArangeLikeParams& p, Inputs, Outputs out) {
  fill_range<double>(ctx, {p.start, p.step, p.repeat, false, 0}, out[0]);
}

__global__ void fill_eye(int64_t n, int64_t columns, int64_t k, void* out, DType dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    store_any<double>(out, dtype, i, i % columns - i / columns == k ? 1.0 : 0.0);
}
void eye(KernelContext& ctx, const EyeParams& p, Inputs, Outputs out) {
  launch_items(ctx, fill_eye, out[0].size(), out[0].size(), out[0].shape[1], p.k, out[0].data,
               out[0].dtype);
}

struct IndexAxes {
  int count;
  int64_t step[Shape::kMaxNdim], size[Shape::kMaxNdim];
};
__global__ void fill_indices(int64_t n, const __grid_constant__ IndexAxes axes, int64_t* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int a = static_cast<int>(i % axes.count);
    out[i] = i / axes.count / axes.step[a] % axes.size[a];
  }
}
void index_array(KernelContext& ctx, const IndexArrayParams& p, Inputs in, Outputs out) {
  const Shape& shape = in[0].shape;
  const Strides steps = contiguous_strides(shape);
  Shape chosen;
  for (int i = 0; i < shape.ndim(); ++i) chosen.push_back(i);
  if (p.axes) chosen = *p.axes;
  IndexAxes axes{};
  for (const int64_t given : chosen) {
    const int axis = static_cast<int>(given < 0 ? given + shape.ndim() : given);
    axes.step[axes.count] = steps[axis];
    axes.size[axes.count++] = shape[axis];
  }
  launch_items(ctx, fill_indices, out[0].size(), out[0].size(), axes, out[0].as<int64_t>());
}

template <class Word>
__global__ void fill_words(const __grid_constant__ Walk<1> walk, Word word, Word* out) {
  const int64_t n = walk.total();
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    int64_t at[1];
    walk.offsets(i, at);
    out[at[0]] = word;
  }
}

template <class Word>
void run_fill(KernelContext& ctx, const Walk<1>& walk, uint64_t bits, void* out) {
  launch_items(ctx, fill_words<Word>, walk.total(), walk, static_cast<Word>(bits),
               static_cast<Word*>(out));
}

}  // namespace

void fill_value(KernelContext& ctx, const TensorRef& out, Number value) {
  Walk<1> walk;
  for (int i = 0; i < out.shape.ndim(); ++i) walk.add(out.shape[i], {out.strides[i]});
  walk.finish();
  uint64_t bits = 0;
  dispatch_dtype(out.dtype, [&]<class T>(T) {
    const T stored = value.as<T>();
    std::memcpy(&bits, &stored, sizeof(T));
  });
  switch (dtype_size(out.dtype)) {
    case 1:
      return run_fill<uint8_t>(ctx, walk, bits, out.data);
    case 2:
      return run_fill<uint16_t>(ctx, walk, bits, out.data);
    case 4:
      return run_fill<uint32_t>(ctx, walk, bits, out.data);
    default:
      return run_fill<uint64_t>(ctx, walk, bits, out.data);
  }
}

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&arange>("_arange");
  ops.cuda_kernel<&linspace>("_linspace");
  ops.cuda_kernel<&eye>("_eye");
  ops.cuda_kernel<&index_array>("_contrib_index_array", kStrided);
  ops.cuda_kernel<&arange_like>("_contrib_arange_like", kStrided);
});

}  // namespace mxlite::cuda
