#include "cpp/ops/vision/box_nms.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kBoxNmsName = "_contrib_box_nms";

// Checks that column `index` exists and is not a coordinate. The width of a row may be unknown.
void check_column(const BoxNmsParams& p, const char* name, int index, int64_t width) {
  MX_CHECK(index >= 0 && may_be_at_least(width, int64_t{index} + 1), kBoxNmsName, ": ", name, " ",
           index, " is out of range for rows of ", width, " elements");
  MX_CHECK(index < p.coord_start || index > int64_t{p.coord_start} + 3, kBoxNmsName, ": ", name,
           " must not be one of the coordinates, ", p.coord_start, " to ",
           int64_t{p.coord_start} + 3, ", got ", index);
}

Specs infer_nms(const BoxNmsParams& p, std::span<const TensorSpec> in) {
  Shape rows = in[0].shape;
  check_floating(kBoxNmsName, "data", in[0]);
  const int expected = p.id_index >= 0 ? 6 : 5;
  MX_CHECK_SHAPE(rows.ndim() >= 2 && may_be_at_least(rows.back(), expected), kBoxNmsName,
                 ": data must have shape (..., boxes, ", expected, " or more elements), got ",
                 rows);
  const int64_t width = rows.back();
  MX_CHECK(p.coord_start >= 0 && may_be_at_least(width, int64_t{p.coord_start} + 4), kBoxNmsName,
           ": coord_start must leave four coordinates in rows of ", width, " elements, got ",
           p.coord_start);
  check_column(p, "score_index", p.score_index, width);
  if (p.id_index >= 0) {
    check_column(p, "id_index", p.id_index, width);
    MX_CHECK(p.id_index != p.score_index, kBoxNmsName,
             ": id_index must differ from score_index, got ", p.id_index, " for both");
  }
  rows[rows.ndim() - 1] = 1;
  return {in[0], {rows, DType::kInt64}};
}

// Passes the gradient of an output row to its input row; the gradient of dropped rows is 0.
std::vector<ValueRef> grad_nms(GradBuilder& g) {
  return {g.emit("_box_nms_backward", {g.output_grad(0), g.output(1)})};
}

}  // namespace

static const Registration box_nms_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<BoxNmsParams>(kBoxNmsName)
              .alias({"_contrib_box_non_maximum_suppression"})
              .doc("Non-maximum suppression: returns the rows in descending order of score, "
                   "without boxes that overlap a box of higher score; the remaining rows are "
                   "filled with -1. A row holds class, score and four coordinates at the indices "
                   "that the parameters give.")
              .shapes("(..., boxes, 5 or more) -> the same shape")
              .outputs(2)
              .visible_outputs(1)
              .infer(infer_nms)
              .gradient(grad_nms)
              .amp(AmpClass::kWidest)
              .total_outputs(2));
  ops.add(OpBuilder<NoParams>("_box_nms_backward")
              .internal()
              .inputs({"output_grad", "source"})
              .doc("Gradient of _contrib_box_nms.")
              .infer([](const NoParams&, std::span<const TensorSpec> in) { return Specs{in[0]}; }));
});

}  // namespace mxlite
