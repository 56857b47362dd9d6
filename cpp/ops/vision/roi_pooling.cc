#include <limits>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/roi_rules.h"

namespace mxlite {
namespace {

constexpr const char* kRoiPoolingOp = "ROIPooling";

// The hidden second output is the index of each maximum in its plane, or -1 if there is none.
Specs infer_roi_pooling(const RoiPoolingParams& p, std::span<const TensorSpec> in) {
  check_regions(kRoiPoolingOp, in, 5);
  check_pooled_size(kRoiPoolingOp, p.pooled_size);
  const Shape& data = in[0].shape;
  MX_CHECK_SHAPE(multiply_dims(data[2], data[3]) <= std::numeric_limits<int32_t>::max(),
                 kRoiPoolingOp, ": data must have at most ", std::numeric_limits<int32_t>::max(),
                 " pixels per channel, got shape ", data);
  const Shape out{in[1].shape[0], data[1], p.pooled_size[0], p.pooled_size[1]};
  return Specs{TensorSpec{out, in[0].dtype}, TensorSpec{out, DType::kInt32}};
}

std::vector<ValueRef> roi_pooling_gradient(GradBuilder& g) {
  auto params = std::make_shared<RoiGradParams<RoiPoolingParams>>();
  static_cast<RoiPoolingParams&>(*params) = g.params<RoiPoolingParams>();
  params->data_shape = g.input_spec(0).shape;
  return {g.emit("_roi_pooling_backward", {g.output_grad(0), g.input(1), g.output(1)},
                 ParamsRef(std::move(params))),
          ValueRef{}};
}

}  // namespace

static const Registration roi_pooling_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<RoiPoolingParams>(kRoiPoolingOp)
              .doc("Divides each region into bins of whole pixels and returns the maximum of each "
                   "bin. rois has rows (image, xmin, ymin, xmax, ymax).")
              .shapes("data: (N, C, H, W), rois: (count, 5) -> (count, C, *pooled_size)")
              .inputs({"data", "rois"})
              .outputs(2)
              .visible_outputs(1)
              .infer(infer_roi_pooling)
              .gradient(roi_pooling_gradient)
              .symbol({.output_names = {"output"}}));
  ops.add(OpBuilder<RoiGradParams<RoiPoolingParams>>("_roi_pooling_backward")
              .internal()
              .doc("Gradient of ROIPooling for data.")
              .inputs({"output_grad", "rois", "positions"})
              .infer(infer_roi_backward<RoiPoolingParams>));
});

}  // namespace mxlite
