// Parameters of the linear algebra operators. Unless stated otherwise, matrices are the last two
// axes, and the other axes form a batch.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct LinalgGemmParams {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 1;
  int axis = -2;
  MX_FIELDS(LinalgGemmParams, MX_FIELD(transpose_a, "Use the transposed A."),
            MX_FIELD(transpose_b, "Use the transposed B."),
            MX_FIELD(alpha, "Factor of the product."), MX_FIELD(beta, "Factor of C."),
            MX_FIELD(axis, "Axis of the rows; columns are the last axis."))
};

struct LinalgGemm2Params {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1;
  int axis = -2;
  MX_FIELDS(LinalgGemm2Params, MX_FIELD(transpose_a, "Use the transposed A."),
            MX_FIELD(transpose_b, "Use the transposed B."),
            MX_FIELD(alpha, "Factor of the product."),
            MX_FIELD(axis, "Axis of the rows; columns are the last axis."))
};

struct LinalgSyrkParams {
  bool transpose = false;
  double alpha = 1;
  MX_FIELDS(LinalgSyrkParams, MX_FIELD(transpose, "A^T A instead of A A^T."),
            MX_FIELD(alpha, "Factor of the product."))
};

struct LinalgTriangularParams {  // shared by trmm and trsm
  bool transpose = false, rightside = false, lower = true;
  double alpha = 1;
  MX_FIELDS(LinalgTriangularParams, MX_FIELD(transpose, "Use the transposed A."),
            MX_FIELD(rightside, "A stands on the right of B."),
            MX_FIELD(lower, "Read A's lower triangle, else the upper."),
            MX_FIELD(alpha, "Factor of the result."))
};

struct LinalgOffsetParams {  // shared by extractdiag and makediag
  int64_t offset = 0;
  MX_FIELDS(LinalgOffsetParams,
            MX_FIELD(offset, "Diagonal: above the main one if positive, below if negative.")
                .between(-kMaxSize, kMaxSize))
};

struct LinalgFactorParams {  // shared by potrf and potri
  bool lower = true;
  MX_FIELDS(LinalgFactorParams, MX_FIELD(lower, "Lower triangular factor, else upper."))
};

struct LinalgTrianParams {  // shared by extracttrian, maketrian, _linalg_triangle
  int64_t offset = 0;
  bool lower = true;
  MX_FIELDS(LinalgTrianParams,
            MX_FIELD(offset,
                     "First diagonal: positive for an upper triangle, negative for a lower one.")
                .between(-kMaxSize, kMaxSize),
            MX_FIELD(lower, "With offset 0: lower triangle, else upper."))
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
