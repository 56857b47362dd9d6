// Joining and splitting. The joined array is viewed as (outer, length, inner), where the axis is in
// the middle; a part consists of `outer` rows of (the part's length) * inner elements.
#include "cpp/ops/tensor/concat.h"

#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

enum class Direction { kJoin, kSplit };

void move_parts(KernelContext& ctx, Direction direction, int axis, const TensorRef& joined,
                std::span<const TensorRef> parts) {
  if (joined.size() == 0) return;
  const size_t bytes = dtype_size(joined.dtype);
  const int64_t outer = joined.shape.product(0, axis), row = joined.size() / outer;
  int64_t begin = 0;
  for (const TensorRef& part : parts) {
    const int64_t length = part.size() / outer;
    void* const place = at(joined.data, begin, bytes);
    const bool join = direction == Direction::kJoin;
    Walk<2> walk;
    walk.add(outer, {join ? row : length, join ? length : row});
    walk.add(length, {1, 1});
    walk.finish();
    strided_copy(ctx, bytes, walk, join ? place : part.data, join ? part.data : place);
    begin += length;
  }
}

void concat(KernelContext& ctx, const ConcatParams& p, Inputs in, Outputs out) {
  const int axis = normalize_axis("Concat", p.dim, out[0].shape.ndim());
  move_parts(ctx, Direction::kJoin, axis, out[0], in);
}
void stack(KernelContext& ctx, const StackParams& p, Inputs in, Outputs out) {
  const int axis = normalize_axis("stack", p.axis, out[0].shape.ndim());
  move_parts(ctx, Direction::kJoin, axis, out[0], in);
}
void slice_channel(KernelContext& ctx, const SliceChannelParams& p, Inputs in, Outputs out) {
  const int axis = normalize_axis("SliceChannel", p.axis, in[0].shape.ndim());
  move_parts(ctx, Direction::kSplit, axis, in[0], out);
}
void split_v2(KernelContext& ctx, const SplitV2Params& p, Inputs in, Outputs out) {
  const int axis = normalize_axis("_split_v2", p.axis, in[0].shape.ndim());
  move_parts(ctx, Direction::kSplit, axis, in[0], out);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::concat>("Concat");
  ops.cuda_kernel<&cuda::stack>("stack");
  ops.cuda_kernel<&cuda::slice_channel>("SliceChannel");
  ops.cuda_kernel<&cuda::split_v2>("_split_v2");
});

}  // namespace mxlite::cuda
