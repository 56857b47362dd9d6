#include "cpp/ops/nn/class_centres.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kSampleOp = "_contrib_sample_classes";
constexpr const char* kCosinesOp = "_contrib_class_cosines";
constexpr const char* kBackwardOp = "_contrib_class_cosines_backward";
constexpr const char* kUpdateOp = "_contrib_class_centres_update";

void check_matrix(const char* op, const char* input, const TensorSpec& spec) {
  MX_CHECK_SHAPE(spec.shape.ndim() == 2, op, ": ", input, " must have 2 axes, got shape ",
                 spec.shape);
  MX_CHECK_DTYPE(spec.dtype == DType::kFloat32, op, ": ", input, " must be float32, got ",
                 spec.dtype);
}

void check_shape(const char* op, const char* input, const TensorSpec& spec, const Shape& expected) {
  MX_CHECK_SHAPE(may_equal(spec.shape, expected), op, ": ", input, " must have shape ", expected,
                 ", got ", spec.shape);
}

void check_rows(const char* op, const TensorSpec& rows) {
  MX_CHECK_SHAPE(rows.shape.ndim() == 1, op, ": rows must have 1 axis, got shape ", rows.shape);
  MX_CHECK_DTYPE(rows.dtype == DType::kInt32, op, ": rows must be int32, got ", rows.dtype);
}

Specs infer_sample(const SampleClassesParams& p, std::span<const TensorSpec> in) {
  MX_CHECK(p.first <= p.classes - p.size, kSampleOp, ": first + size must be at most the ",
           p.classes, " classes, got ", p.first, " + ", p.size);
  MX_CHECK_SHAPE(in[0].shape.ndim() == 1, kSampleOp, ": label must have 1 axis, got shape ",
                 in[0].shape);
  check_shape(kSampleOp, "step", in[1], Shape{1});
  const int64_t labels = in[0].shape[0];
  const int64_t rows = labels < 0 ? -1 : std::min(p.size, std::max(p.count, labels));
  return Specs{{Shape{rows}, DType::kInt32}, {in[0].shape, DType::kInt32}};
}

Specs infer_cosines(const NoParams&, std::span<const TensorSpec> in) {
  check_matrix(kCosinesOp, "data", in[0]);
  check_matrix(kCosinesOp, "weight", in[1]);
  check_shape(kCosinesOp, "data", in[0], Shape{in[0].shape[0], in[1].shape[1]});
  check_rows(kCosinesOp, in[2]);
  return Specs{{Shape{in[0].shape[0], in[2].shape[0]}, DType::kFloat32}};
}

Specs infer_class_centres_backward(const NoParams&, std::span<const TensorSpec> in) {
  check_matrix(kBackwardOp, "output_grad", in[0]);
  check_matrix(kBackwardOp, "weight", in[1]);
  check_rows(kBackwardOp, in[2]);
  check_shape(kBackwardOp, "output_grad", in[0], Shape{in[0].shape[0], in[2].shape[0]});
  return Specs{{Shape{in[0].shape[0], in[1].shape[1]}, DType::kFloat32}};
}

Specs infer_update(const CentreUpdateParams&, std::span<const TensorSpec> in) {
  check_matrix(kUpdateOp, "weight", in[0]);
  check_matrix(kUpdateOp, "mom", in[1]);
  check_matrix(kUpdateOp, "data", in[3]);
  check_matrix(kUpdateOp, "cosines_grad", in[4]);
  check_rows(kUpdateOp, in[2]);
  check_shape(kUpdateOp, "mom", in[1], in[0].shape);
  check_shape(kUpdateOp, "data", in[3], Shape{in[4].shape[0], in[0].shape[1]});
  check_shape(kUpdateOp, "cosines_grad", in[4], Shape{in[3].shape[0], in[2].shape[0]});
  return Specs{in[0]};
}

std::vector<ValueRef> cosines_gradient(GradBuilder& g) {
  return {g.emit(kBackwardOp, {g.output_grad(0), g.input(1), g.input(2)}), {}, {}};
}

}  // namespace

static const Registration class_centres_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<SampleClassesParams>(kSampleOp)
              .doc("Chooses rows of a shard of the classes: the rows of the labels, and random "
                   "other rows without replacement, which depend only on seed, step and `first`. "
                   "Returns the rows in ascending order, and the position of each label among "
                   "them, or -1 if the label belongs to another shard. The number of rows is "
                   "`count`, or the number of labels if that is larger, but at most `size`. Labels "
                   "outside of the classes raise an error.")
              .shapes("label (n,), step (1,) -> int32 (rows,) in ascending order, int32 (n,)")
              .inputs({"label", "step"})
              .outputs(2)
              .infer(infer_sample)
              .zero_gradient());
  ops.add(OpBuilder<NoParams>(kCosinesOp)
              .doc("Products of data with the normalized rows of weight; these are cosines if the "
                   "rows of data have norm 1. weight gets no gradient, because "
                   "class_centres_update computes it during the update.")
              .shapes("data (n, d), weight (classes, d), int32 rows (k,) in range -> (n, k)")
              .inputs({"data", "weight", "rows"})
              .infer(infer_cosines)
              .gradient(cosines_gradient)
              .amp(AmpClass::kFloat32));
  ops.add(OpBuilder<NoParams>(kBackwardOp)
              .doc("Gradient of class_cosines with respect to data.")
              .shapes("output_grad (n, k), weight (classes, d), int32 rows (k,) -> (n, d)")
              .inputs({"output_grad", "weight", "rows"})
              .infer(infer_class_centres_backward)
              .amp(AmpClass::kFloat32));
  ops.add(OpBuilder<CentreUpdateParams>(kUpdateOp)
              .doc("Updates the given rows of weight, the class centres, by SGD with momentum from "
                   "the gradient of class_cosines, without storing the gradient of weight. The row "
                   "indices must be distinct. All other rows of weight and mom stay unchanged, "
                   "without weight decay. Usually called with out=weight.")
              .shapes("weight, mom (classes, d), int32 rows (k,), data (n, d), cosines_grad "
                      "(n, k) -> (classes, d)")
              .inputs({"weight", "mom", "rows", "data", "cosines_grad"})
              .infer(infer_update)
              .mutates({1})
              .inplace(0, 0));
});

}  // namespace mxlite
