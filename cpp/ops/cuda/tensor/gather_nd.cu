// Converts coordinates to row numbers in an array of (rows, inner). Negative coordinates count from
// the end; coordinates out of range are clipped, because kernels cannot throw.
#include "cpp/ops/cuda/accumulate_rows.cuh"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/gather_nd.h"

namespace mxlite::cuda {
namespace {

struct Coordinates {
  const void* data;
  DType dtype;
  int depth;
  int64_t count, inner, num_rows;
  int64_t length[Shape::kMaxNdim];

  __device__ __forceinline__ int64_t row(int64_t i) const {
    int64_t row = 0;
    for (int axis = 0; axis < depth; ++axis) {
      int64_t c = load_any<int64_t>(data, dtype, axis * count + i);
      if (c < 0) c += length[axis];
      c = c < 0 ? 0 : c < length[axis] ? c : length[axis] - 1;
      row = row * length[axis] + c;
    }
    return row;
  }
};

Coordinates coordinates_of(const TensorRef& indices, const Shape& shape) {
  Coordinates c{indices.data, indices.dtype, static_cast<int>(indices.shape[0])};
  c.count = indices.shape.product(1, indices.shape.ndim());
  c.num_rows = shape.product(0, c.depth);
  c.inner = shape.product(c.depth, shape.ndim());
  for (int i = 0; i < c.depth; ++i) c.length[i] = shape[i];
  return c;
}

template <class Word>
__global__ void gather(int64_t n, const __grid_constant__ Coordinates c, const Word* from,
                       Word* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to[i] = from[c.row(i / c.inner) * c.inner + i % c.inner];
}
// If coordinates are equal, it is undefined which element is stored.
template <class Word>
__global__ void scatter(int64_t n, const __grid_constant__ Coordinates c, const Word* from,
                        Word* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to[c.row(i / c.inner) * c.inner + i % c.inner] = from[i];
}
__global__ void find_rows(const __grid_constant__ Coordinates c, int64_t* rows) {
  for (int64_t i = global_index(); i < c.count; i += grid_stride()) rows[i] = c.row(i);
}

void put(KernelContext& ctx, const Coordinates& c, const TensorRef& from, const TensorRef& to) {
  dispatch_size(dtype_size(to.dtype), [&]<class Word>(Word) {
    launch_items(ctx, scatter<Word>, from.size(), from.size(), c, from.as<Word>(), to.as<Word>());
  });
}

void gather_nd(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  if (n == 0) return;
  const Coordinates c = coordinates_of(in[1], in[0].shape);
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, gather<Word>, n, n, c, in[0].as<Word>(), out[0].as<Word>());
  });
}

void scatter_nd(KernelContext& ctx, const ScatterNdParams& p, Inputs in, Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  if (in[0].size() > 0) put(ctx, coordinates_of(in[1], p.shape), in[0], out[0]);
}

void gather_nd_backward(KernelContext& ctx, const ScatterNdParams& p, Inputs in, Outputs out) {
  if (in[0].size() == 0) return zero_bytes(ctx, out[0].data, out[0].bytes());
  const Coordinates c = coordinates_of(in[1], p.shape);
  RowAccumulation a{in[0].dtype, 1, c.count, c.num_rows, c.inner};
  a.rows = accumulation_rows(ctx, a);
  launch_items(ctx, find_rows, c.count, c, a.rows);
  accumulate_rows(ctx, a, in[0].data, out[0].data);
}

void scatter_set_nd(KernelContext& ctx, const ScatterNdParams&, Inputs in, Outputs out) {
  copy_bytes(ctx, out[0].data, in[0].data, out[0].bytes());
  if (in[1].size() > 0) put(ctx, coordinates_of(in[2], out[0].shape), in[1], out[0]);
}

// Replaces rows of old_tensor by rows of new_tensor.
void index_copy(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  copy_bytes(ctx, out[0].data, in[0].data, out[0].bytes());
  if (in[2].size() == 0) return;
  TensorRef indices = in[1];
  indices.shape = {1, in[1].size()};
  put(ctx, coordinates_of(indices, in[0].shape), in[2], out[0]);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::gather_nd>("gather_nd");
  ops.cuda_kernel<&cuda::scatter_nd>("scatter_nd");
  ops.cuda_kernel<&cuda::gather_nd_backward>("_gather_nd_backward");
  ops.cuda_kernel<&cuda::scatter_set_nd>("_scatter_set_nd");
  ops.cuda_kernel<&cuda::index_copy>("_contrib_index_copy");
});

}  // namespace mxlite::cuda
