// Parameters of the linear algebra operators. Matrices are the last two axes unless stated
// otherwise, the axes before them count matrices.
#pragma once
#include <tuple>

#include "cpp/ops/op_schema.h"

namespace mxlite {

struct LinalgGemmParams {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 1;
  int axis = -2;
  static constexpr auto fields() {
    return std::tuple(
        field("transpose_a", &LinalgGemmParams::transpose_a, "Use the transposed A."),
        field("transpose_b", &LinalgGemmParams::transpose_b, "Use the transposed B."),
        field("alpha", &LinalgGemmParams::alpha, "Factor of the product."),
        field("beta", &LinalgGemmParams::beta, "Factor of C."),
        field("axis", &LinalgGemmParams::axis, "Axis of the rows; columns are the last axis."));
  }
};

struct LinalgGemm2Params {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1;
  int axis = -2;
  static constexpr auto fields() {
    return std::tuple(
        field("transpose_a", &LinalgGemm2Params::transpose_a, "Use the transposed A."),
        field("transpose_b", &LinalgGemm2Params::transpose_b, "Use the transposed B."),
        field("alpha", &LinalgGemm2Params::alpha, "Factor of the product."),
        field("axis", &LinalgGemm2Params::axis, "Axis of the rows; columns are the last axis."));
  }
};

struct LinalgSyrkParams {
  bool transpose = false;
  double alpha = 1;
  static constexpr auto fields() {
    return std::tuple(field("transpose", &LinalgSyrkParams::transpose, "A^T A instead of A A^T."),
                      field("alpha", &LinalgSyrkParams::alpha, "Factor of the product."));
  }
};

struct LinalgTriangularParams {  // shared by trmm and trsm
  bool transpose = false, rightside = false, lower = true;
  double alpha = 1;
  static constexpr auto fields() {
    return std::tuple(
        field("transpose", &LinalgTriangularParams::transpose, "Use the transposed A."),
        field("rightside", &LinalgTriangularParams::rightside, "A stands on the right of B."),
        field("lower", &LinalgTriangularParams::lower, "Read A's lower triangle, else the upper."),
        field("alpha", &LinalgTriangularParams::alpha, "Factor of the result."));
  }
};

struct LinalgOffsetParams {  // shared by extractdiag and makediag
  int64_t offset = 0;
  static constexpr auto fields() {
    return std::tuple(field("offset", &LinalgOffsetParams::offset,
                            "Diagonal: above the main one if positive, below if negative.")
                          .between(-kMaxSize, kMaxSize));
  }
};

struct LinalgFactorParams {  // shared by potrf and potri
  bool lower = true;
  static constexpr auto fields() {
    return std::tuple(
        field("lower", &LinalgFactorParams::lower, "Lower triangular factor, else upper."));
  }
};

struct LinalgTrianParams {  // shared by extracttrian, maketrian, _linalg_triangle
  int64_t offset = 0;
  bool lower = true;
  static constexpr auto fields() {
    return std::tuple(
        field("offset", &LinalgTrianParams::offset,
              "First diagonal: positive for an upper triangle, negative for a lower one.")
            .between(-kMaxSize, kMaxSize),
        field("lower", &LinalgTrianParams::lower, "With offset 0: lower triangle, else upper."));
  }
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

// At least two dimensions and float32 or float64 (or any float type).
void check_matrices(const char* op, std::span<const TensorSpec> in, bool halves = false);
void check_square(const char* op, const TensorSpec& a, bool halves = false);
// Drops the last `count` axes but keeps at least one.
Shape leading_shape(const Shape& shape, int count);
// Returns the number of rows and columns of square matrices; -1 if neither is known.
int64_t square_size(const Shape& shape);

}  // namespace mxlite
