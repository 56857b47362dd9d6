#include "cpp/ops/vision/crop.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kCropOp = "Crop";

Specs infer_crop_specs(const CropParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  MX_CHECK(in.size() == 1 || in.size() == 2, kCropOp,
           ": the inputs must be data or data and crop_like, got ", in.size(), " inputs");
  MX_CHECK_SHAPE(data.ndim() == 4, kCropOp,
                 ": data must have 4 dimensions (batch, channels, height, width), got shape ",
                 data);
  Shape out = data;
  if (in.size() == 2) {
    const Shape& like = in[1].shape;
    MX_CHECK_SHAPE(like.ndim() == 4, kCropOp, ": crop_like must have 4 dimensions, got shape ",
                   like);
    out[2] = like[2];
    out[3] = like[3];
  } else {
    MX_CHECK_SHAPE(p.h_w.ndim() == 2 && p.h_w[0] > 0 && p.h_w[1] > 0, kCropOp,
                   ": h_w must be two positive numbers, got ", p.h_w);
    out[2] = p.h_w[0];
    out[3] = p.h_w[1];
  }
  MX_CHECK_SHAPE(p.offset.ndim() == 2, kCropOp, ": offset must have 2 numbers, got ", p.offset);
  const auto [row, column] = p.start(data, out);
  const auto holds = [](int64_t size, int64_t first, int64_t part) {
    return !is_known(size) || !is_known(part) || (part <= size && first + part <= size);
  };
  MX_CHECK_SHAPE(holds(data[2], row, out[2]) && holds(data[3], column, out[3]), kCropOp,
                 ": height and width ", Shape{out[2], out[3]}, " at offset ", Shape{row, column},
                 " do not fit into data of shape ", data);
  return Specs{TensorSpec{out, in[0].dtype}};
}

std::vector<ValueRef> crop_gradient(GradBuilder& g) {
  const auto& p = g.params<CropParams>();
  const Shape &data = g.input_spec(0).shape, &part = g.output_spec(0).shape;
  const auto [row, column] = p.start(data, part);
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  const OptionalInts width{
      0, 0, 0, 0, row, data[2] - part[2] - row, column, data[3] - part[3] - column};
  grads[0] =
      g.emit("Pad", {g.output_grad(0)}, {{"mode", std::string("constant")}, {"pad_width", width}});
  return grads;
}

}  // namespace

static const Registration crop_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<CropParams>(kCropOp)
              .doc("Cuts a rectangle out of each image, of size h_w or of the height and width of "
                   "a second input.")
              .shapes("data: (N, C, H, W), and one to take the size from -> (N, C, oH, oW)")
              .variadic("data")
              .infer(infer_crop_specs)
              .gradient(crop_gradient)
              .symbol({.names_single_input = true, .count_attribute = "num_args"}));
});

}  // namespace mxlite
