// Operators on the parts of sparse arrays: values, indices and indptr are dense arrays. The rules
// of cpp/sparse are composed of them.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite::sparse {

struct ShapeParams {
  Shape shape;
  static constexpr auto fields() {
    return std::tuple(
        required_field("shape", &ShapeParams::shape, "Shape of the sparse array.").at_least(0));
  }
};

struct CsrDotParams {
  Shape shape;
  bool transpose = false, sparse_grad = false;
  static constexpr auto fields() {
    using P = CsrDotParams;
    return std::tuple(
        required_field("shape", &P::shape, "Shape of the csr array.").at_least(0),
        field("transpose", &P::transpose, "Use the transposed csr array."),
        field("sparse_grad", &P::sparse_grad, "Give the gradient of rhs as single rows."));
  }
};

struct CsrSumParams {
  Shape shape;
  int axis = 1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("shape", &CsrSumParams::shape, "Shape of the csr array.").at_least(0),
        field("axis", &CsrSumParams::axis, "0: sums of columns, 1: of rows."));
  }
};

struct CountParams {
  int64_t nnz = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("nnz", &CountParams::nnz, "Number of stored values.").at_least(0));
  }
};

struct EmbeddingRowsParams {
  int64_t input_dim = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("input_dim", &EmbeddingRowsParams::input_dim, "Number of rows.")
            .at_least(1));
  }
};

// The index parts of a call, checked: int64 vectors, indptr one longer than the rows.
void check_csr(const char* op, const Shape& shape, const TensorSpec& indices,
               const TensorSpec& indptr);
void check_index(const char* op, const char* name, const TensorSpec& index);

}  // namespace mxlite::sparse
