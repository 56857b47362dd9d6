// Converts coordinates to row numbers in an array of (rows, inner). Negative coordinates count from
// the end; coordinates out of range throw.
#include "cpp/ops/tensor/gather_nd.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpp/ops/cpu/accumulate_rows.h"
#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

struct GatherNdRows {
  const int64_t* row;
  int64_t* extra;  // additional memory that the caller has requested
  int64_t count, num_rows, inner;
};

// Lowers `value` to `i` if `i` is smaller.
void lower_to(std::atomic<int64_t>& value, int64_t i) {
  for (int64_t now = value; i < now;)
    if (value.compare_exchange_weak(now, i)) return;
}

GatherNdRows resolve_rows(KernelContext& ctx, const char* op, const TensorRef& indices,
                          const Shape& shape, int64_t extra_per_row = 0) {
  const auto depth = static_cast<int>(indices.shape[0]);
  const int64_t count = indices.shape.product(1, indices.shape.ndim());
  int64_t* rows = nullptr;
  const int64_t* const values = cpu::index_values(ctx, indices, count * (1 + extra_per_row), &rows);
  std::atomic<int64_t> first_bad = count;
  cpu::parallel_for(count, 4, [&](int64_t i) {
    int64_t row = 0;
    for (int axis = 0; axis < depth; ++axis) {
      const int64_t given = values[axis * count + i], length = shape[axis];
      if (given < -length || given >= length) lower_to(first_bad, i);
      row = row * length + (given < 0 ? given + length : given);
    }
    rows[i] = row;
  });
  if (first_bad < count) {
    for (int axis = 0; axis < depth; ++axis) {
      const int64_t given = values[axis * count + first_bad], length = shape[axis];
      MX_CHECK_KIND(given >= -length && given < length, ErrorKind::kIndex, op, ": index ", given,
                    " is out of range for axis ", axis, " of an array of shape ", shape);
    }
  }
  return {rows, rows + count, count, shape.product(0, depth), shape.product(depth, shape.ndim())};
}

void gather_nd_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const GatherNdRows r = resolve_rows(ctx, "gather_nd", in[1], in[0].shape);
  cpu::dispatch_size(dtype_size(in[0].dtype), [&]<class T>(T) {
    cpu::parallel_for(r.count, r.inner, [&](int64_t i) {
      std::copy_n(in[0].as<T>() + r.row[i] * r.inner, r.inner, out[0].as<T>() + i * r.inner);
    });
  });
}

// Writes in the order of the indices, so that the last of equal indices takes effect.
void put_rows(const GatherNdRows& r, const TensorRef& from, const TensorRef& to) {
  const size_t row_bytes = static_cast<size_t>(r.inner) * dtype_size(to.dtype);
  for (int64_t i = 0; i < r.count; ++i)
    std::memcpy(to.as<char>() + r.row[i] * static_cast<int64_t>(row_bytes),
                from.as<char>() + i * static_cast<int64_t>(row_bytes), row_bytes);
}

void scatter_nd_native(KernelContext& ctx, const ScatterNdParams& p, Inputs in, Outputs out) {
  cpu::zero_fill(out[0].data, out[0].bytes());
  if (in[0].size() == 0) return;
  put_rows(resolve_rows(ctx, "scatter_nd", in[1], p.shape), in[0], out[0]);
}

void gather_nd_backward_native(KernelContext& ctx, const ScatterNdParams& p, Inputs in,
                               Outputs out) {
  if (in[0].size() == 0) return cpu::zero_fill(out[0].data, out[0].bytes());
  const GatherNdRows r = resolve_rows(ctx, "_gather_nd_backward", in[1], p.shape, 2);
  cpu::accumulate_rows({in[0].dtype, 1, r.count, r.num_rows, r.inner, r.row, r.extra}, in[0].data,
                       out[0].data);
}

void scatter_set_nd_native(KernelContext& ctx, const ScatterNdParams&, Inputs in, Outputs out) {
  cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
  if (in[1].size() == 0) return;
  put_rows(resolve_rows(ctx, "_scatter_set_nd", in[2], out[0].shape), in[1], out[0]);
}

}  // namespace

static const Registration gather_nd_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&gather_nd_native>("gather_nd");
  ops.cpu_kernel<&scatter_nd_native>("scatter_nd");
  ops.cpu_kernel<&gather_nd_backward_native>("_gather_nd_backward");
  ops.cpu_kernel<&scatter_set_nd_native>("_scatter_set_nd");
});

}  // namespace mxlite
