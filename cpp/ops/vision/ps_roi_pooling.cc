// Position-sensitive pooling: bin (i, j) of output channel c reads the input channel of its group,
// which is (c * groups + i * groups / bins) * groups + j * groups / bins.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/roi_rules.h"

namespace mxlite {
namespace {

constexpr const char* kPsRoiPooling = "_contrib_PSROIPooling";
constexpr const char* kDeformable = "_contrib_DeformablePSROIPooling";

Specs infer_ps_roi_pooling(const PsRoiPoolingParams& p, std::span<const TensorSpec> in) {
  check_regions(kPsRoiPooling, in, 5);
  check_groups(kPsRoiPooling, in[0].shape, p.output_dim, p.groups());
  const Shape out{in[1].shape[0], p.output_dim, p.pooled_size, p.pooled_size};
  return Specs{TensorSpec{out, in[0].dtype}};
}

Specs infer_deformable(const DeformablePsRoiPoolingParams& p, std::span<const TensorSpec> in) {
  check_regions(kDeformable, in, 5);
  check_groups(kDeformable, in[0].shape, p.output_dim, p.group_size);
  if (!p.no_trans) {
    const Shape& trans = in[2].shape;
    MX_CHECK_DTYPE(in[2].dtype == in[0].dtype, kDeformable, ": trans must have data's dtype ",
                   in[0].dtype, ", got ", in[2].dtype);
    const bool classes_fit =
        trans.ndim() == 4 && (!is_known(trans[1]) || (trans[1] >= 2 && trans[1] % 2 == 0 &&
                                                      p.output_dim % (trans[1] / 2) == 0));
    MX_CHECK_SHAPE(classes_fit && may_equal(trans[0], in[1].shape[0]) &&
                       may_equal(trans[2], p.parts()) && may_equal(trans[3], p.parts()),
                   kDeformable, ": trans must have shape (", in[1].shape[0], ", 2 * classes, ",
                   p.parts(), ", ", p.parts(), ") with classes a divisor of output_dim ",
                   p.output_dim, ", got ", trans);
  }
  const Shape out{in[1].shape[0], p.output_dim, p.pooled_size, p.pooled_size};
  return Specs{TensorSpec{out, in[0].dtype}};
}

std::vector<ValueRef> gradient_deformable(GradBuilder& g) {
  std::vector<ValueRef> inputs{g.output_grad(0)};
  for (int i = 0; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  const auto both = g.emit_all("_deformable_psroi_pooling_backward", inputs, g.params_ref());
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  grads[0] = both[0];
  if (grads.size() > 2) grads[2] = both[1];
  return grads;
}

}  // namespace

static const Registration ps_roi_pooling_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<PsRoiPoolingParams>(kPsRoiPooling)
              .doc("Divides each region into pooled_size^2 bins and returns the mean of each bin, "
                   "where each bin reads a separate group of channels. rois has rows (image, xmin, "
                   "ymin, xmax, ymax).")
              .shapes("data: (N, output_dim * group_size * group_size, H, W), rois: (R, 5) -> (R, "
                      "output_dim, pooled_size, pooled_size)")
              .inputs({"data", "rois"})
              .infer(infer_ps_roi_pooling)
              .gradient([](GradBuilder& g) {
                return roi_gradient<PsRoiPoolingParams>(g, "_psroi_pooling_backward");
              })
              .amp(AmpClass::kWidest));
  ops.add(OpBuilder<RoiGradParams<PsRoiPoolingParams>>("_psroi_pooling_backward")
              .internal()
              .doc("Gradient of PSROIPooling for data.")
              .inputs({"output_grad", "rois"})
              .infer(infer_roi_backward<PsRoiPoolingParams>)
              .gradient([](GradBuilder& g) {
                return roi_second_gradient<PsRoiPoolingParams>(g, kPsRoiPooling);
              }));
  ops.add(
      OpBuilder<DeformablePsRoiPoolingParams>(kDeformable)
          .doc("PSROIPooling with bilinear samples, whose bins are moved by the offsets in trans.")
          .shapes("data: (N, output_dim * group_size * group_size, H, W), rois: (R, 5), trans: (R, "
                  "2 * classes, part_size, part_size) -> (R, output_dim, pooled_size, pooled_size)")
          .inputs({"data", "rois", "trans"})
          .input_count([](const DeformablePsRoiPoolingParams& p) { return p.no_trans ? 2 : 3; })
          .infer(infer_deformable)
          .gradient(gradient_deformable)
          .amp(AmpClass::kFloat32)
          .symbol({.output_names = {"output"}})
          .total_outputs(2));
  ops.add(OpBuilder<DeformablePsRoiPoolingParams>("_deformable_psroi_pooling_backward")
              .internal()
              .doc("Gradients of DeformablePSROIPooling for data and, unless no_trans, trans.")
              .inputs({"output_grad", "data", "rois", "trans"})
              .input_count([](const DeformablePsRoiPoolingParams& p) { return p.no_trans ? 3 : 4; })
              .output_count(
                  [](const DeformablePsRoiPoolingParams& p, int) { return p.no_trans ? 1 : 2; })
              .infer([](const DeformablePsRoiPoolingParams& p, std::span<const TensorSpec> in) {
                Specs out{in[1]};
                if (!p.no_trans) out.push_back(in[3]);
                return out;
              }));
});

}  // namespace mxlite
