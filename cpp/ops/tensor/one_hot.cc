// one_hot, ravel_multi_index, unravel_index, fill_element_0index.
#include "cpp/ops/tensor/one_hot.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_one_hot(const OneHotParams& p, std::span<const TensorSpec> in) {
  Shape to = in[0].shape;
  to.push_back(p.depth);
  return {{to, p.dtype}};
}

Specs infer_ravel(const RavelParams& p, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  MX_CHECK_SHAPE(p.shape.ndim() > 0 && from.ndim() > 0 && may_equal(from[0], p.shape.ndim()),
                 "ravel_multi_index: data must have one row for each of the ", p.shape.ndim(),
                 " dimensions of shape ", p.shape, ", got shape ", from);
  Shape to = from;
  to.erase(0);
  if (to.ndim() == 0) to.push_back(1);
  return {{to, in[0].dtype}};
}

Specs infer_unravel(const RavelParams& p, std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(p.shape.ndim() > 0, "unravel_index: shape must have at least 1 dimension, got ()");
  for (int i = 0; i < p.shape.ndim(); ++i)
    MX_CHECK_SHAPE(p.shape[i] > 0 || (i == 0 && p.shape[i] == -1),
                   "unravel_index: entries of shape must be above 0, or -1 for the first one, got ",
                   p.shape);
  Shape to = in[0].shape;
  to.insert(0, p.shape.ndim());
  return {{to, in[0].dtype}};
}

Specs infer_fill_element(const NoParams&, std::span<const TensorSpec> in) {
  const Shape& lhs = in[0].shape;
  MX_CHECK_SHAPE(lhs.ndim() == 2 && may_equal(count_elements(in[1].shape), lhs[0]) &&
                     may_equal(count_elements(in[2].shape), lhs[0]),
                 "fill_element_0index: lhs must have 2 dimensions, mhs and rhs one entry per row "
                 "of lhs, got shapes ",
                 lhs, ", ", in[1].shape, " and ", in[2].shape);
  MX_CHECK_DTYPE(in[0].dtype == in[1].dtype,
                 "fill_element_0index: mhs must have the dtype of lhs, ", in[0].dtype, ", got ",
                 in[1].dtype);
  return {in[0]};
}

}  // namespace

static const Registration one_hot_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<OneHotParams>("one_hot")
          .inputs({"indices"})
          .doc("One-hot vectors along a new last axis: on_value at the index, off_value elsewhere. "
               "An index outside of the axis gives only off_value.")
          .shapes("any shape -> (*indices.shape, depth)")
          .infer(infer_one_hot)
          .zero_gradient()
          .symbol(
              {.constant_output = true, .untied_inputs = {0}, .output_type = OutputType::kDtype}));
  ops.add(OpBuilder<RavelParams>("ravel_multi_index")
              .alias({"_ravel_multi_index"})
              .symbol({.file_name = "_ravel_multi_index"})
              .doc("Converts coordinates to indices into the flattened array; data has one row for "
                   "each dimension of shape.")
              .shapes("(len(shape), count) -> (count,)")
              .infer(infer_ravel)
              .refine([](const RavelParams& p, PartialShapes& shapes) {
                Shape data = shapes.output(0);
                if (data.ndim() < 0 || data == Shape{1})
                  return;  // data may have one or two dimensions
                data.insert(0, p.shape.ndim());
                shapes.refine_input(0, data);
              })
              .zero_gradient());
  ops.add(OpBuilder<RavelParams>("unravel_index")
              .alias({"_unravel_index"})
              .symbol({.file_name = "_unravel_index"})
              .doc("Converts indices into the flattened array to coordinates; the output has one "
                   "row for each dimension of shape.")
              .shapes("(count,) -> (len(shape), count)")
              .infer(infer_unravel)
              .refine([](const RavelParams&, PartialShapes& shapes) {
                Shape data = shapes.output(0);
                if (data.ndim() < 1) return;
                data.erase(0);
                shapes.refine_input(0, data);
              })
              .zero_gradient());
  ops.add(OpBuilder<NoParams>("fill_element_0index")
              .inputs({"lhs", "mhs", "rhs"})
              .doc("Returns lhs with one element of each row replaced: output[i, rhs[i]] = mhs[i].")
              .shapes("lhs: (N, n), mhs, rhs: (N,) -> (N, n)")
              .infer(infer_fill_element)
              .inplace(0, 0));
});

}  // namespace mxlite
