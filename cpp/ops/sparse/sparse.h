// Operators on the parts of sparse arrays: values, indices and indptr are dense arrays. The rules
// of cpp/sparse consist of these operators.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite::sparse {

struct ShapeParams {
  Shape shape;
  MX_FIELDS(ShapeParams, MX_REQUIRED_FIELD(shape, "Shape of the sparse array.").at_least(0))
};

struct CsrDotParams {
  Shape shape;
  bool transpose = false, sparse_grad = false;
  MX_FIELDS(CsrDotParams, MX_REQUIRED_FIELD(shape, "Shape of the csr array.").at_least(0),
            MX_FIELD(transpose, "Whether the csr array is transposed first."),
            MX_FIELD(sparse_grad, "Whether the gradient of rhs is a row-sparse array."))
};

struct CsrSumParams {
  Shape shape;
  int axis = 1;
  MX_FIELDS(CsrSumParams, MX_REQUIRED_FIELD(shape, "Shape of the csr array.").at_least(0),
            MX_FIELD(axis, "Axis that is summed: 0 returns the sums of columns, 1 of rows."))
};

struct CountParams {
  int64_t nnz = 0;
  MX_FIELDS(CountParams, MX_REQUIRED_FIELD(nnz, "Number of stored values.").at_least(0))
};

struct EmbeddingRowsParams {
  int64_t input_dim = 0;
  MX_FIELDS(EmbeddingRowsParams, MX_REQUIRED_FIELD(input_dim, "Number of rows.").at_least(1))
};

// Throws unless indices and indptr are int64 vectors and indptr has one element more than rows.
void check_csr(const char* op, const Shape& shape, const TensorSpec& indices,
               const TensorSpec& indptr);
void check_index(const char* op, const char* name, const TensorSpec& index);

}  // namespace mxlite::sparse
