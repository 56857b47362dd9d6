#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/roi_rules.h"

namespace mxlite {
namespace {

constexpr const char* kAlign = "_contrib_ROIAlign";
constexpr const char* kRotated = "_contrib_RROIAlign";

Specs infer_align(const RoiAlignParams& p, std::span<const TensorSpec> in) {
  check_regions(kAlign, in, 5);
  check_pooled_size(kAlign, p.pooled_size);
  const Shape& size = p.pooled_size;
  int64_t channels = in[0].shape[1];
  if (p.position_sensitive) {
    MX_CHECK_SHAPE(may_be_multiple(channels, size.size()), kAlign,
                   ": with position_sensitive and pooled_size ", size,
                   ", the number of channels must be a multiple of ", size.size(), ", got ",
                   channels, " in data of shape ", in[0].shape);
    channels = divide_dim(channels, size.size());
  }
  return Specs{TensorSpec{Shape{in[1].shape[0], channels, size[0], size[1]}, in[0].dtype}};
}

Specs infer_rotated(const RotatedRoiAlignParams& p, std::span<const TensorSpec> in) {
  check_regions(kRotated, in, 6);
  check_pooled_size(kRotated, p.pooled_size);
  const Shape out{in[1].shape[0], in[0].shape[1], p.pooled_size[0], p.pooled_size[1]};
  return Specs{TensorSpec{out, in[0].dtype}};
}

}  // namespace

static const Registration roi_align_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<RoiAlignParams>(kAlign)
              .doc("Divides each region into bins and returns the mean of bilinear samples in each "
                   "bin. rois has rows (image, xmin, ymin, xmax, ymax).")
              .shapes("data: (N, C, H, W), rois: (R, 5) -> (R, C, oH, oW); position-sensitive: (R, "
                      "C / (oH * oW), oH, oW)")
              .inputs({"data", "rois"})
              .infer(infer_align)
              .gradient([](GradBuilder& g) {
                return roi_gradient<RoiAlignParams>(g, "_roi_align_backward");
              })
              .amp(AmpClass::kWidest));
  ops.add(
      OpBuilder<RoiGradParams<RoiAlignParams>>("_roi_align_backward")
          .internal()
          .doc("Gradient of ROIAlign for data.")
          .inputs({"output_grad", "rois"})
          .infer(infer_roi_backward<RoiAlignParams>)
          .gradient([](GradBuilder& g) { return roi_second_gradient<RoiAlignParams>(g, kAlign); }));
  ops.add(OpBuilder<RotatedRoiAlignParams>(kRotated)
              .doc("ROIAlign of rotated regions; rois has rows (image, center x, center y, width, "
                   "height, angle in degrees).")
              .shapes("data: (N, C, H, W), rois: (R, 6) -> (R, C, oH, oW)")
              .inputs({"data", "rois"})
              .infer(infer_rotated)
              .gradient([](GradBuilder& g) {
                return roi_gradient<RotatedRoiAlignParams>(g, "_rotated_roi_align_backward");
              }));
  ops.add(OpBuilder<RoiGradParams<RotatedRoiAlignParams>>("_rotated_roi_align_backward")
              .internal()
              .doc("Gradient of RROIAlign for data.")
              .inputs({"output_grad", "rois"})
              .infer(infer_roi_backward<RotatedRoiAlignParams>)
              .gradient([](GradBuilder& g) {
                return roi_second_gradient<RotatedRoiAlignParams>(g, kRotated);
              }));
});

}  // namespace mxlite
