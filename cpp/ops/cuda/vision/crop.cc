#include "cpp/ops/vision/crop.h"

#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace cuda {
namespace {

void crop(KernelContext& ctx, const CropParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  const Shape &data = in[0].shape, &part = out[0].shape;
  const auto [row, column] = p.start(data, part);
  const size_t bytes = dtype_size(in[0].dtype);
  Walk<2> walk;
  walk.add(part[0] * part[1], {part[2] * part[3], data[2] * data[3]});
  walk.add(part[2], {part[3], data[3]});
  walk.add(part[3], {1, 1});
  walk.finish();
  strided_copy(ctx, bytes, walk, out[0].data, at(in[0].data, row * data[3] + column, bytes));
}

}  // namespace
}  // namespace cuda

void register_crop_cuda(OpRegistry& ops) { ops.kernel<&cuda::crop>("Crop", DeviceType::kCUDA); }

}  // namespace mxlite
