// Parameters of the linear algebra operators. Unless stated otherwise, matrices are the last two
// axes, and the other axes form a batch.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct LinalgGemmParams {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 1;
  int axis = -2;
  MX_FIELDS(LinalgGemmParams,
            MX_FIELD(transpose_a, "Whether A is transposed: op(A) is its transpose."),
            MX_FIELD(transpose_b, "Whether B is transposed: op(B) is its transpose."),
            MX_FIELD(alpha, "Factor alpha of the product."), MX_FIELD(beta, "Factor beta of C."),
            MX_FIELD(axis, "Axis of the rows of matrices; columns are along the last axis."))
};

struct LinalgGemm2Params {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1;
  int axis = -2;
  MX_FIELDS(LinalgGemm2Params,
            MX_FIELD(transpose_a, "Whether A is transposed: op(A) is its transpose."),
            MX_FIELD(transpose_b, "Whether B is transposed: op(B) is its transpose."),
            MX_FIELD(alpha, "Factor alpha of the product."),
            MX_FIELD(axis, "Axis of the rows of matrices; columns are along the last axis."))
};

struct LinalgSyrkParams {
  bool transpose = false;
  double alpha = 1;
  MX_FIELDS(LinalgSyrkParams,
            MX_FIELD(transpose, "Whether the product is A^T * A; False is A * A^T."),
            MX_FIELD(alpha, "Factor alpha of the product."))
};

struct LinalgTriangularParams {  // shared by trmm and trsm
  bool transpose = false, rightside = false, lower = true;
  double alpha = 1;
  MX_FIELDS(LinalgTriangularParams,
            MX_FIELD(transpose, "Whether A is transposed: op(A) is its transpose."),
            MX_FIELD(rightside, "Whether op(A) is the right factor of the product."),
            MX_FIELD(lower,
                     "Whether A is lower triangular; False is upper triangular. The other triangle "
                     "is not read."),
            MX_FIELD(alpha, "Factor alpha of the product, or of B for linalg_trsm."))
};

struct LinalgOffsetParams {  // shared by extractdiag and makediag
  int64_t offset = 0;
  MX_FIELDS(
      LinalgOffsetParams,
      MX_FIELD(
          offset,
          "Diagonal: positive above the main diagonal, negative below it, 0 the main diagonal.")
          .between(-kMaxSize, kMaxSize))
};

struct LinalgFactorParams {  // shared by potrf and potri
  bool lower = true;
  MX_FIELDS(LinalgFactorParams,
            MX_FIELD(lower, "Whether the factor is lower triangular; False is upper triangular."))
};

struct LinalgTrianParams {  // shared by extracttrian, maketrian, _linalg_triangle
  int64_t offset = 0;
  bool lower = true;
  MX_FIELDS(
      LinalgTrianParams,
      MX_FIELD(offset,
               "Diagonal at which the triangle begins: positive above the main diagonal (an upper "
               "triangle), negative below it (a lower triangle), 0 the main diagonal.")
          .between(-kMaxSize, kMaxSize),
      MX_FIELD(lower,
               "Whether the triangle is the lower one if offset is 0; False is the upper one."))
  bool is_lower() const { return offset < 0 || (offset == 0 && lower); }
  int64_t distance() const { return offset < 0 ? -offset : offset; }
};

// Rows at `axis`, columns last: (outer, rows, middle, columns).
struct MatrixView {
  int64_t outer, rows, middle, cols;
};
inline MatrixView matrix_view(const char* op, const Shape& shape, int axis = -2) {
  const int a = normalize_axis(op, axis, shape.ndim());
  return {shape.product(0, a), shape[a], shape.product(a + 1, shape.ndim() - 1), shape.back()};
}

// Requires at least two dimensions and float32 or float64 (or, if `halves`, any float type).
void check_matrices(const char* op, std::span<const TensorSpec> in, bool halves = false);
void check_square(const char* op, const TensorSpec& a, bool halves = false);
// Drops the last `count` axes but keeps at least one.
Shape leading_shape(const Shape& shape, int count);
// Returns the number of rows and columns of square matrices, or -1 if neither is known.
int64_t square_size(const Shape& shape);

}  // namespace mxlite
