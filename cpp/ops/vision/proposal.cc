#include "cpp/ops/vision/proposal.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kSingle = "_contrib_Proposal";
constexpr const char* kMulti = "_contrib_MultiProposal";

template <const char* const& kName>
Specs infer_proposal(const ProposalParams& p, std::span<const TensorSpec> in) {
  const Shape& cls = in[0].shape;
  const auto num_anchors = static_cast<int64_t>(p.scales.size() * p.ratios.size());
  check_floating(kName, "cls_prob", in[0]);
  MX_CHECK_SHAPE(
      cls.ndim() == 4 && may_equal(cls[1], 2 * num_anchors) && cls[2] != 0 && cls[3] != 0, kName,
      ": cls_prob must have shape (batch, ", 2 * num_anchors, ", height, width) for ", num_anchors,
      " anchors per position, got ", cls);
  MX_CHECK_SHAPE(kName != kSingle || may_equal(cls[0], 1), kName,
                 ": the number of images must be 1, got ", cls[0], "; MultiProposal takes more");
  check_param_shape(kName, "bbox_pred", in[1], {cls[0], 4 * num_anchors, cls[2], cls[3]}, cls);
  check_param_shape(kName, "im_info", in[2], {cls[0], 3}, cls);
  check_same_dtype(kName, "bbox_pred", in[1], in[0].dtype);
  check_same_dtype(kName, "im_info", in[2], in[0].dtype);
  const int64_t images = kName == kSingle ? 1 : cls[0];
  const int64_t regions = multiply_dims(images, p.rpn_post_nms_top_n);
  return {{{regions, 5}, in[0].dtype}, {{regions, 1}, in[0].dtype}};
}

void complete_proposal(const ProposalParams&, std::span<TensorSpec> in) {
  const Shape& cls = in[0].shape;
  if (cls.ndim() != 4) return;
  complete_shape(in[1], {cls[0], multiply_dims(2, cls[1]), cls[2], cls[3]});
  complete_shape(in[2], {cls[0], 3});
}

template <const char* const& kName>
void add_proposal(OpRegistry& ops, const char* images) {
  ops.add(
      OpBuilder<ProposalParams>(kName)
          .inputs({"cls_prob", "bbox_pred", "im_info"})
          .doc(str("Returns regions (image, xmin, ymin, xmax, ymax) of ", images,
                   " in descending order of score, and repeats regions if there are too few. "
                   "im_info has rows (height, width, scale). The gradient is 0."))
          .shapes("cls_prob: (N, 2 * A, H, W), bbox_pred: (N, 4 * A, H, W), im_info: (N, 3) -> (N "
                  "* rpn_post_nms_top_n, 5); with output_score also (N * rpn_post_nms_top_n, 1)")
          .outputs(2)
          .visible_outputs([](const ProposalParams& p) { return p.output_score ? 2 : 1; })
          .infer(infer_proposal<kName>)
          .complete(complete_proposal)
          .zero_gradient()
          .amp(AmpClass::kWidest)
          .symbol({.output_names = {"output", "score"}, .constant_output = true})
          .total_outputs(2));
}

}  // namespace

static const Registration proposal_registration(Stage::kSchemas, [](OpRegistry& ops) {
  add_proposal<kSingle>(ops, "one image");
  add_proposal<kMulti>(ops, "each image of a batch");
});

}  // namespace mxlite
