#include "cpp/ops/vision/multibox.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kPrior = "_contrib_MultiBoxPrior";
constexpr const char* kTarget = "_contrib_MultiBoxTarget";
constexpr const char* kDetection = "_contrib_MultiBoxDetection";

Specs infer_prior(const MultiBoxPriorParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  check_floating(kPrior, "data", in[0]);
  MX_CHECK_SHAPE(data.ndim() >= 4 && data[2] != 0 && data[3] != 0, kPrior,
                 ": data must have shape (batch, channels, height, width) with height and width of "
                 "at least 1, got ",
                 data);
  MX_CHECK(!p.sizes.empty() && !p.ratios.empty(), kPrior,
           ": sizes and ratios must have at least 1 entry each, got ", p.sizes.size(), " and ",
           p.ratios.size());
  MX_CHECK(p.steps.size() == 2 && p.steps[0] * p.steps[1] >= 0, kPrior,
           ": steps must be two numbers (y, x), both given or both left out");
  MX_CHECK(p.offsets.size() == 2, kPrior, ": offsets must be two numbers (y, x)");
  const auto per_position = static_cast<int64_t>(p.sizes.size() + p.ratios.size()) - 1;
  return {{{1, multiply_dims(multiply_dims(data[2], data[3]), per_position), 4}, in[0].dtype}};
}

void check_variances(const char* op, const std::vector<double>& variances) {
  MX_CHECK(variances.size() == 4, op, ": variances must have 4 numbers (x, y, width, height), got ",
           variances.size());
}

void check_anchors(const char* op, const TensorSpec& anchor) {
  const Shape& s = anchor.shape;
  check_floating(op, "anchor", anchor);
  MX_CHECK_SHAPE(s.ndim() == 3 && may_equal(s[0], 1) && s[1] != 0 && may_equal(s[2], 4), op,
                 ": anchor must have shape (1, anchors, 4), got ", s);
}

Specs infer_target(const MultiBoxTargetParams& p, std::span<const TensorSpec> in) {
  const Shape &anchor = in[0].shape, &label = in[1].shape, &cls = in[2].shape;
  check_anchors(kTarget, in[0]);
  check_same_dtype(kTarget, "label", in[1], in[0].dtype);
  check_same_dtype(kTarget, "cls_pred", in[2], in[0].dtype);
  MX_CHECK_SHAPE(label.ndim() == 3 && may_be_at_least(label[2], 5), kTarget,
                 ": label must have shape (batch, labels, 5 or more), got ", label);
  MX_CHECK_SHAPE(
      cls.ndim() == 3 && may_equal(cls[0], label[0]) && cls[1] != 0 && may_equal(cls[2], anchor[1]),
      kTarget, ": cls_pred must have shape (", label[0], ", classes, ", anchor[1], "), got ", cls);
  check_variances(kTarget, p.variances);
  MX_CHECK(p.negative_mining_ratio <= 0 || p.negative_mining_thresh > 0, kTarget,
           ": negative_mining_thresh must be above 0, got ", p.negative_mining_thresh);
  const int64_t batch = merged(label[0], cls[0]), anchors = merged(anchor[1], cls[2]);
  const TensorSpec location{{batch, multiply_dims(4, anchors)}, in[0].dtype};
  return {location, location, {{batch, anchors}, in[0].dtype}};
}

Specs infer_detection(const MultiBoxDetectionParams& p, std::span<const TensorSpec> in) {
  const Shape &cls = in[0].shape, &loc = in[1].shape, &anchor = in[2].shape;
  check_anchors(kDetection, in[2]);
  check_same_dtype(kDetection, "cls_prob", in[0], in[2].dtype);
  check_same_dtype(kDetection, "loc_pred", in[1], in[2].dtype);
  MX_CHECK_SHAPE(cls.ndim() == 3 && may_equal(cls[2], anchor[1]), kDetection,
                 ": cls_prob must have shape (batch, classes, ", anchor[1], "), got ", cls);
  const int64_t anchors = merged(anchor[1], cls[2]);
  const Shape locations{cls[0], multiply_dims(4, anchors)};
  MX_CHECK_SHAPE(may_equal(loc, locations), kDetection, ": loc_pred must have shape ", locations,
                 ", got ", loc);
  check_variances(kDetection, p.variances);
  return {{{merged(cls[0], loc[0]), anchors, 6}, in[0].dtype}};
}

}  // namespace

static const Registration multibox_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<MultiBoxPriorParams>(kPrior)
          .doc("Returns anchor boxes (xmin, ymin, xmax, ymax), relative to the image, around each "
               "position of a feature map: one for each size with the first ratio, and one for "
               "each further ratio with the first size. Only the shape of data is used.")
          .shapes("(N, C, H, W) -> (1, H * W * anchors of a position, 4)")
          .infer(infer_prior)
          .zero_gradient()
          .amp(AmpClass::kFloat32));
  ops.add(
      OpBuilder<MultiBoxTargetParams>(kTarget)
          .inputs({"anchor", "label", "cls_pred"})
          .doc("Returns location targets, their mask and class targets of each anchor. label has "
               "rows (class, xmin, ymin, xmax, ymax, ...); the first row with class -1 ends the "
               "labels. Class target 0 is the background, and class c has target c + 1.")
          .shapes("anchor: (1, A, 4), label: (N, boxes, 5), cls_pred: (N, classes, A) -> (N, 4 * "
                  "A), (N, 4 * A), (N, A)")
          .outputs(3)
          .infer(infer_target)
          .zero_gradient()
          .symbol({.output_names = {"loc_target", "loc_mask", "cls_target"}}));
  ops.add(
      OpBuilder<MultiBoxDetectionParams>(kDetection)
          .inputs({"cls_prob", "loc_pred", "anchor"})
          .doc("Returns detections as rows (class, probability, xmin, ymin, xmax, ymax) in "
               "descending order of probability. Suppressed detections have class -1; rows without "
               "a detection are filled with -1.")
          .shapes("cls_prob: (N, classes, A), loc_pred: (N, 4 * A), anchor: (1, A, 4) -> (N, A, 6)")
          .infer(infer_detection)
          .zero_gradient()
          .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
