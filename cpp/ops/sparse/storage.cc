// Operators that choose the storage type of their results. Rules of cpp/sparse run these operators,
// even on dense arrays; symbols read the names, shapes and types that are defined here.
#include "cpp/ops/sparse/storage.h"

#include "cpp/ops/reduce/reduce.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace sparse {
namespace {

Specs infer_retain(const NoParams&, std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(in[0].shape.ndim() >= 1,
                 "_sparse_retain: data must have at least 1 dimension, got shape ()");
  return {in[0]};
}

Specs infer_square_sum(const ReduceParams& p, std::span<const TensorSpec> in) {
  const Shape& shape = in[0].shape;
  const AxisMask reduced = reduced_axes("_square_sum", p.axis, p.exclude, shape.ndim());
  return {{result_shape(shape, reduced, p.keepdims), in[0].dtype}};
}

}  // namespace
}  // namespace sparse

static const Registration storage_registration(Stage::kSchemas, [](OpRegistry& ops) {
  using namespace sparse;  // NOLINT: this folder's own names
  ops.add(OpBuilder<CastStorageParams>("cast_storage")
              .doc("Converts data to another storage type.")
              .infer([](const CastStorageParams&, std::span<const TensorSpec> in) {
                return Specs{in[0]};
              })
              .storage({.chooses_storage = true})
              .refine(refine_all_alike));
  ops.add(OpBuilder<NoParams>("_sparse_retain")
              .inputs({"data", "indices"})
              .doc("Keeps the rows of a row-sparse array that indices list; all other rows are 0.")
              .infer(infer_retain)
              .storage({.chooses_storage = true})
              .symbol({.untied_inputs = {1}})
              .refine(refine_like_first));
  ops.add(OpBuilder<ReduceParams>("_square_sum")
              .doc("Sum of squares along axes; of a row-sparse array, only stored rows are read.")
              .infer(infer_square_sum)
              .storage({.chooses_storage = true}));
});

}  // namespace mxlite
