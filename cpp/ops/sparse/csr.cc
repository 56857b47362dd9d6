// Products, sums and conversions of csr arrays.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/sparse/sparse.h"

namespace mxlite {
namespace sparse {

void check_index(const char* op, const char* name, const TensorSpec& index) {
  MX_CHECK_DTYPE(index.dtype == DType::kInt64, op, ": ", name, " must be of dtype int64, got ",
                 index.dtype);
  MX_CHECK_SHAPE(index.shape.ndim() == 1, op, ": ", name, " must be a vector, got shape ",
                 index.shape);
}

void check_csr(const char* op, const Shape& shape, const TensorSpec& indices,
               const TensorSpec& indptr) {
  MX_CHECK_SHAPE(shape.ndim() == 2, op, ": shape must have 2 dimensions, got ", shape);
  check_index(op, "indices", indices);
  check_index(op, "indptr", indptr);
  MX_CHECK_SHAPE(may_equal(indptr.shape[0], checked_add(shape[0], 1)), op, ": indptr must have ",
                 shape[0] + 1, " elements for ", shape[0], " rows, got shape ", indptr.shape);
}

namespace {

void check_values(const char* op, const TensorSpec& values, const TensorSpec& indices) {
  MX_CHECK_SHAPE(may_equal(values.shape, indices.shape), op,
                 ": data must have the shape of indices, ", indices.shape, ", got ", values.shape);
}

Specs infer_dot(const CsrDotParams& p, std::span<const TensorSpec> in) {
  check_csr("_csr_dot", p.shape, in[1], in[2]);
  check_values("_csr_dot", in[0], in[1]);
  MX_CHECK_DTYPE(in[0].dtype == in[3].dtype, "dot: rhs must have the dtype of lhs, ", in[0].dtype,
                 ", got ", in[3].dtype);
  const int64_t inner = p.shape[p.transpose ? 0 : 1], outer = p.shape[p.transpose ? 1 : 0];
  MX_CHECK_SHAPE(in[3].shape.ndim() == 2 && may_equal(in[3].shape[0], inner),
                 "dot: csr lhs of shape ", p.shape, p.transpose ? " (transposed)" : "",
                 " and rhs of shape ", in[3].shape, " cannot be multiplied");
  return Specs{TensorSpec{Shape{outer, in[3].shape[1]}, in[0].dtype}};
}

std::vector<ValueRef> grad_dot(GradBuilder& g) {
  const auto& p = g.params<CsrDotParams>();
  const ValueRef grad = g.output_grad(0);
  std::vector<ValueRef> grads(4);
  if (g.needs_grad(0)) {
    const ValueRef rhs = g.input(3);
    grads[0] = g.emit("_csr_sampled_dot",
                      {p.transpose ? rhs : grad, p.transpose ? grad : rhs, g.input(1), g.input(2)});
  }
  if (g.needs_grad(3) && p.sparse_grad && !p.transpose) {
    const Shape rhs = g.input_spec(3).shape;
    grads[3] = g.emit("_row_sparse_to_dense",
                      {g.emit("_csr_spread", {g.input(0), g.input(2), grad}), g.input(1)},
                      {{"shape", rhs}});
  } else if (g.needs_grad(3)) {
    grads[3] = g.emit("_csr_dot", {g.input(0), g.input(1), g.input(2), grad},
                      {{"shape", p.shape}, {"transpose", !p.transpose}});
  }
  return grads;
}

void register_products(OpRegistry& ops) {
  ops.add(OpBuilder<CsrDotParams>("_csr_dot")
              .inputs({"data", "indices", "indptr", "rhs"})
              .doc("Product of a csr matrix and a dense one.")
              .infer(infer_dot)
              .gradient(grad_dot));
  ops.add(OpBuilder<NoParams>("_csr_sampled_dot")
              .internal()
              .inputs({"lhs", "rhs", "indices", "indptr"})
              .doc("Dot products of row r of lhs and row c of rhs for each position (r, c) that a "
                   "csr matrix stores.")
              .infer([](const NoParams&, std::span<const TensorSpec> in) {
                MX_CHECK_SHAPE(in[0].shape.ndim() == 2 && in[1].shape.ndim() == 2 &&
                                   in[0].shape[1] == in[1].shape[1],
                               "_csr_sampled_dot: lhs and rhs must be matrices with rows of one "
                               "length, got shapes ",
                               in[0].shape, " and ", in[1].shape);
                check_csr("_csr_sampled_dot", Shape{in[0].shape[0], in[1].shape[0]}, in[2], in[3]);
                return Specs{TensorSpec{in[2].shape, in[0].dtype}};
              }));
  ops.add(OpBuilder<NoParams>("_csr_spread")
              .internal()
              .inputs({"data", "indptr", "rhs"})
              .doc("For each value that a csr matrix stores in row r, row r of rhs multiplied by "
                   "this value.")
              .infer([](const NoParams&, std::span<const TensorSpec> in) {
                check_index("_csr_spread", "indptr", in[1]);
                MX_CHECK_SHAPE(in[2].shape.ndim() == 2 && in[1].shape[0] == in[2].shape[0] + 1,
                               "_csr_spread: rhs must be a matrix with a row for each of indptr, "
                               "got rhs of shape ",
                               in[2].shape, " and indptr of shape ", in[1].shape);
                return Specs{TensorSpec{Shape{in[0].shape[0], in[2].shape[1]}, in[2].dtype}};
              }));
}

void register_conversions(OpRegistry& ops) {
  ops.add(OpBuilder<ShapeParams>("_csr_to_dense")
              .inputs({"data", "indices", "indptr"})
              .doc("Converts a csr matrix to a dense one; values that are stored twice are added.")
              .infer([](const ShapeParams& p, std::span<const TensorSpec> in) {
                check_csr("_csr_to_dense", p.shape, in[1], in[2]);
                check_values("_csr_to_dense", in[0], in[1]);
                return Specs{TensorSpec{p.shape, in[0].dtype}};
              }));
  ops.add(OpBuilder<NoParams>("_csr_gather")
              .inputs({"dense", "indices", "indptr"})
              .doc("Elements of a matrix, broadcast to the shape of a csr matrix, at the positions "
                   "that the csr matrix stores.")
              .infer([](const NoParams&, std::span<const TensorSpec> in) {
                check_index("_csr_gather", "indices", in[1]);
                check_index("_csr_gather", "indptr", in[2]);
                MX_CHECK_SHAPE(
                    in[0].shape.ndim() == 2 &&
                        (in[0].shape[0] == 1 ||
                         may_equal(add_to_dim(in[0].shape[0], 1), in[2].shape[0])),
                    "_csr_gather: dense must be a matrix of 1 row or of the csr array's ",
                    in[2].shape[0] - 1, " rows, got shape ", in[0].shape);
                return Specs{TensorSpec{in[1].shape, in[0].dtype}};
              }));
  ops.add(OpBuilder<NoParams>("_csr_count")
              .inputs({"dense"})
              .doc("Returns indptr of the csr matrix that stores the values of a dense matrix "
                   "other than 0.")
              .infer([](const NoParams&, std::span<const TensorSpec> in) {
                MX_CHECK_SHAPE(in[0].shape.ndim() == 2,
                               "cast_storage: data must have 2 dimensions for csr, got shape ",
                               in[0].shape);
                return Specs{TensorSpec{Shape{add_to_dim(in[0].shape[0], 1)}, DType::kInt64}};
              }));
  ops.add(
      OpBuilder<CountParams>("_csr_collect")
          .inputs({"dense", "indptr"})
          .outputs(2)
          .doc("Returns data and indices of the csr matrix whose indptr _csr_count has computed.")
          .infer([](const CountParams& p, std::span<const TensorSpec> in) {
            check_index("_csr_collect", "indptr", in[1]);
            MX_CHECK_SHAPE(
                in[0].shape.ndim() == 2 && may_equal(add_to_dim(in[0].shape[0], 1), in[1].shape[0]),
                "_csr_collect: dense must be a matrix with a row for each of "
                "indptr, got dense of shape ",
                in[0].shape, " and indptr of shape ", in[1].shape);
            return Specs{TensorSpec{Shape{p.nnz}, in[0].dtype},
                         TensorSpec{Shape{p.nnz}, DType::kInt64}};
          }));
  ops.add(OpBuilder<CountParams>("_csr_rows")
              .inputs({"indptr"})
              .doc("Returns the row index of each stored value of a csr matrix.")
              .infer([](const CountParams& p, std::span<const TensorSpec> in) {
                check_index("_csr_rows", "indptr", in[0]);
                return Specs{TensorSpec{Shape{p.nnz}, DType::kInt64}};
              }));
  ops.add(OpBuilder<CsrSumParams>("_csr_sum")
              .inputs({"data", "indices", "indptr"})
              .doc("Sums of a csr matrix along one axis.")
              .infer([](const CsrSumParams& p, std::span<const TensorSpec> in) {
                check_csr("_csr_sum", p.shape, in[1], in[2]);
                check_values("_csr_sum", in[0], in[1]);
                MX_CHECK_KIND(p.axis == 0 || p.axis == 1, ErrorKind::kIndex, "sum: axis ", p.axis,
                              " is out of range for a csr array");
                return Specs{TensorSpec{Shape{p.shape[p.axis == 0 ? 1 : 0]}, in[0].dtype}};
              }));
}

}  // namespace
}  // namespace sparse

static const Registration csr_registration(Stage::kSchemas, [](OpRegistry& ops) {
  sparse::register_products(ops);
  sparse::register_conversions(ops);
});

}  // namespace mxlite
