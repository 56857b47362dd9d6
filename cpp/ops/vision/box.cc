#include "cpp/ops/vision/box.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kIou = "_contrib_box_iou";
constexpr const char* kEncode = "_contrib_box_encode";
constexpr const char* kDecode = "_contrib_box_decode";

Specs infer_iou(const BoxIouParams&, std::span<const TensorSpec> in) {
  const char* const names[] = {"lhs", "rhs"};
  Shape to;
  for (int i = 0; i < 2; ++i) {
    const Shape& s = in[i].shape;
    check_floating(kIou, names[i], in[i]);
    MX_CHECK_SHAPE(s.ndim() >= 2 && may_equal(s.back(), 4), kIou, ": ", names[i],
                   " must have shape (..., 4) with 2 or more dimensions, got ", s);
    for (int axis = 0; axis + 1 < s.ndim(); ++axis) to.push_back(s[axis]);
  }
  check_same_dtype(kIou, "rhs", in[1], in[0].dtype);
  return {{to, in[0].dtype}};
}

Specs infer_encode(const NoParams&, std::span<const TensorSpec> in) {
  const Shape &anchors = in[2].shape, &refs = in[3].shape;
  check_floating(kEncode, "anchors", in[2]);
  MX_CHECK_SHAPE(anchors.ndim() == 3 && may_equal(anchors[2], 4), kEncode,
                 ": anchors must have shape (batch, anchors, 4), got ", anchors);
  MX_CHECK_SHAPE(refs.ndim() == 3 && may_equal(refs[0], anchors[0]) && may_equal(refs[2], 4),
                 kEncode, ": refs must have shape (", anchors[0], ", boxes, 4), got ", refs);
  const Shape per_anchor{anchors[0], anchors[1]};
  const std::pair<const char*, Shape> expected[] = {
      {"samples", per_anchor}, {"matches", per_anchor}, {"anchors", anchors},
      {"refs", refs},          {"means", {4}},          {"stds", {4}}};
  for (int i = 0; i < 6; ++i) {
    const auto& [name, shape] = expected[i];
    MX_CHECK_SHAPE(may_equal(in[i].shape, shape), kEncode, ": ", name, " must have shape ", shape,
                   ", got ", in[i].shape);
    check_same_dtype(kEncode, name, in[i], in[2].dtype);
  }
  return {in[2], in[2]};
}

Specs infer_decode(const BoxDecodeParams&, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  check_floating(kDecode, "data", in[0]);
  check_same_dtype(kDecode, "anchors", in[1], in[0].dtype);
  MX_CHECK_SHAPE(data.ndim() == 3 && may_equal(data[2], 4), kDecode,
                 ": data must have shape (batch, anchors, 4), got ", data);
  const Shape anchors{1, data[1], 4};
  MX_CHECK_SHAPE(may_equal(in[1].shape, anchors), kDecode, ": anchors must have shape ", anchors,
                 ", got ", in[1].shape);
  return {in[0]};
}

}  // namespace

static const Registration box_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<BoxIouParams>(kIou)
          .inputs({"lhs", "rhs"})
          .doc(
              "Intersection over union of each box of lhs with each box of rhs. The gradient is 0.")
          .shapes("lhs: (..., 4), rhs: (..., 4) -> axes of lhs and of rhs without the last ones")
          .infer(infer_iou)
          .zero_gradient());
  ops.add(OpBuilder<NoParams>(kEncode)
              .inputs({"samples", "matches", "anchors", "refs", "means", "stds"})
              .doc("Returns regression targets of anchors and their mask. matches holds the index "
                   "of each anchor's box in refs; anchors and refs are (xmin, ymin, xmax, ymax). "
                   "Anchors whose entry in samples is not above 0.5 get zeros.")
              .shapes("samples, matches: (N, anchors), anchors: (N, anchors, 4), refs: (N, boxes, "
                      "4), means, stds: (4,) -> two of (N, anchors, 4)")
              .outputs(2)
              .infer(infer_encode)
              .refine([](const NoParams&, PartialShapes& shapes) {
                for (const int i : {4, 5}) shapes.refine_input(i, Shape{4});
              })
              .zero_gradient()
              .amp(AmpClass::kWidest));
  ops.add(OpBuilder<BoxDecodeParams>(kDecode)
              .inputs({"data", "anchors"})
              .doc("Computes boxes (xmin, ymin, xmax, ymax) from predicted offsets to anchors. The "
                   "gradient is 0.")
              .shapes("data: (N, anchors, 4), anchors: (1, anchors, 4) -> (N, anchors, 4)")
              .infer(infer_decode)
              .zero_gradient()
              .inplace(0, 0));
});

}  // namespace mxlite
