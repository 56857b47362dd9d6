// Row-sparse arrays: `values` contains the rows whose numbers are in `indices`.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/sparse/sparse.h"

namespace mxlite {
namespace sparse {
namespace {

void check_rows(const char* op, const TensorSpec& values, const TensorSpec& indices) {
  check_index(op, "indices", indices);
  MX_CHECK_SHAPE(values.shape.ndim() >= 1 && may_equal(values.shape[0], indices.shape[0]), op,
                 ": values must have a row for each of the ", indices.shape[0],
                 " indices, got shape ", values.shape);
}

Shape with_rows(Shape shape, int64_t rows) {
  shape[0] = rows;
  return shape;
}

void register_row_conversions(OpRegistry& ops) {
  ops.add(
      OpBuilder<ShapeParams>("_row_sparse_to_dense")
          .inputs({"values", "indices"})
          .doc("Converts a row-sparse array to a dense one; rows with the same index are added.")
          .infer([](const ShapeParams& p, std::span<const TensorSpec> in) {
            check_rows("_row_sparse_to_dense", in[0], in[1]);
            MX_CHECK_SHAPE(p.shape.ndim() == in[0].shape.ndim() &&
                               may_equal(with_rows(p.shape, in[0].shape[0]), in[0].shape),
                           "_row_sparse_to_dense: values must be rows of an array of shape ",
                           p.shape, ", got shape ", in[0].shape);
            return Specs{TensorSpec{p.shape, in[0].dtype}};
          })
          .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
            return {g.emit("take", {g.output_grad(0), g.input(1)}), {}};
          }));
  ops.add(OpBuilder<NoParams>("_nonzero_rows")
              .doc("Returns the indices of the rows with a value other than 0, followed by the "
                   "number of such rows.")
              .infer([](const NoParams&, std::span<const TensorSpec> in) {
                MX_CHECK_SHAPE(in[0].shape.ndim() >= 1,
                               "_nonzero_rows: data must have at least 1 dimension, got shape ",
                               in[0].shape);
                return Specs{TensorSpec{Shape{add_to_dim(in[0].shape[0], 1)}, DType::kInt64}};
              }));
  ops.add(OpBuilder<EmbeddingRowsParams>("_embedding_rows")
              .doc("Returns the indices of the rows that Embedding looks up, as a vector.")
              .infer([](const EmbeddingRowsParams&, std::span<const TensorSpec> in) {
                return Specs{TensorSpec{Shape{count_elements(in[0].shape)}, DType::kInt64}};
              }));
}

void register_selection(OpRegistry& ops) {
  ops.add(OpBuilder<NoParams>("_unique_rows")
              .inputs({"indices"})
              .doc("Returns the distinct indices in ascending order, followed by their number.")
              .infer([](const NoParams&, std::span<const TensorSpec> in) {
                check_index("_unique_rows", "indices", in[0]);
                return Specs{TensorSpec{Shape{add_to_dim(in[0].shape[0], 1)}, DType::kInt64}};
              }));
  ops.add(OpBuilder<NoParams>("_merge_rows")
              .inputs({"values", "indices", "unique"})
              .doc("Adds the rows that have the same index; unique holds the distinct indices in "
                   "ascending order.")
              .infer([](const NoParams&, std::span<const TensorSpec> in) {
                check_rows("_merge_rows", in[0], in[1]);
                check_index("_merge_rows", "unique", in[2]);
                return Specs{TensorSpec{with_rows(in[0].shape, in[2].shape[0]), in[0].dtype}};
              }));
  ops.add(
      OpBuilder<NoParams>("_find_rows")
          .inputs({"indices", "queries"})
          .doc(
              "Returns the position of each query among ascending indices, or -1 if it is missing.")
          .infer([](const NoParams&, std::span<const TensorSpec> in) {
            check_index("_find_rows", "indices", in[0]);
            check_index("_find_rows", "queries", in[1]);
            return Specs{TensorSpec{in[1].shape, DType::kInt64}};
          }));
  ops.add(OpBuilder<NoParams>("_row_sparse_take")
              .inputs({"values", "indices", "queries"})
              .doc("Returns the queried rows of a row-sparse array with ascending indices; rows "
                   "that it does not store are 0.")
              .infer([](const NoParams&, std::span<const TensorSpec> in) {
                check_rows("_row_sparse_take", in[0], in[1]);
                check_index("_row_sparse_take", "queries", in[2]);
                return Specs{TensorSpec{with_rows(in[0].shape, in[2].shape[0]), in[0].dtype}};
              }));
}

}  // namespace
}  // namespace sparse

static const Registration rows_registration(Stage::kSchemas, [](OpRegistry& ops) {
  sparse::register_row_conversions(ops);
  sparse::register_selection(ops);
});

}  // namespace mxlite
