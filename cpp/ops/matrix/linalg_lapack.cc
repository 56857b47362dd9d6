// Operators of numpy mode's linear algebra: svd, qr, eig, solve. Gradients are compositions (Giles
// 2008; Walter and Lehmann 2018).
#include <algorithm>
#include <memory>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/matrix/linalg.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

ValueRef linalg_lapack_product(GradBuilder& g, ValueRef a, ValueRef b, bool transpose_a = false,
                               bool transpose_b = false) {
  return g.emit(
      "linalg_gemm2", {a, b},
      std::make_shared<LinalgGemm2Params>(LinalgGemm2Params{transpose_a, transpose_b, 1, -2}));
}
ValueRef transposed_linalg_lapack(GradBuilder& g, ValueRef a) {
  return g.emit("SwapAxis", {a}, {{"dim1", int64_t{-1}}, {"dim2", int64_t{-2}}});
}
ValueRef skew(GradBuilder& g, ValueRef a) { return g.sub(a, transposed_linalg_lapack(g, a)); }
ValueRef diagonal_matrix(GradBuilder& g, ValueRef a) { return g.emit("linalg_makediag", {a}); }

// Returns 1 / a, and 0 where a is 0.
ValueRef inverse_or_zero(GradBuilder& g, ValueRef a) {
  const ValueRef is_zero = g.emit("_equal_scalar", {a}, {{"scalar", 0.0}});
  return g.div(g.add_scalar(g.neg(is_zero), 1), g.add(a, is_zero));
}

// Returns vectors as matrices of one row, or of one column.
ValueRef as_row(GradBuilder& g, ValueRef a) {
  return g.emit("expand_dims", {a}, {{"axis", int64_t{-2}}});
}
ValueRef as_column(GradBuilder& g, ValueRef a) {
  return g.emit("expand_dims", {a}, {{"axis", int64_t{-1}}});
}

// Returns the matrix of 1 / (a_j - a_i), with 0 where the values are equal.
ValueRef inverse_gaps(GradBuilder& g, ValueRef a) {
  return inverse_or_zero(g, g.sub(as_row(g, a), as_column(g, a)));
}

Shape with_last_dims(Shape shape, int64_t rows, int64_t cols) {
  shape[shape.ndim() - 2] = rows;
  shape[shape.ndim() - 1] = cols;
  return shape;
}
Shape without_rows(Shape shape, int64_t cols) {
  shape.erase(shape.ndim() - 2);
  shape[shape.ndim() - 1] = cols;
  return shape;
}
int64_t smaller_dim(const Shape& a) {
  return if_known([](int64_t m, int64_t n) { return std::min(m, n); }, a[a.ndim() - 2], a.back());
}

Specs infer_svd(const NoParams&, std::span<const TensorSpec> in) {
  check_matrices("_npi_svd", in);
  const Shape& a = in[0].shape;
  const DType dtype = in[0].dtype;
  const int64_t k = smaller_dim(a);
  return {{with_last_dims(a, a[a.ndim() - 2], k), dtype},
          {without_rows(a, k), dtype},
          {with_last_dims(a, k, a.back()), dtype}};
}
Specs infer_qr(const NoParams&, std::span<const TensorSpec> in) {
  check_matrices("_npi_qr", in);
  const Shape& a = in[0].shape;
  const int64_t k = smaller_dim(a);
  return {{with_last_dims(a, a[a.ndim() - 2], k), in[0].dtype},
          {with_last_dims(a, k, a.back()), in[0].dtype}};
}
Specs infer_eig(const NoParams&, std::span<const TensorSpec> in) {
  check_square("_npi_eig", in[0]);
  return {{without_rows(in[0].shape, in[0].shape.back()), in[0].dtype}, in[0]};
}
Specs infer_solve(const NoParams&, std::span<const TensorSpec> in) {
  check_matrices("_npi_solve", in);
  check_square("_npi_solve", in[0]);
  const Shape &a = in[0].shape, &b = in[1].shape;
  bool fits = a.ndim() == b.ndim();
  for (int i = 0; fits && i < a.ndim() - 1; ++i) fits = may_equal(a[i], b[i]);
  MX_CHECK_SHAPE(fits, "linalg.solve: b must have the batch of a and as many rows, got shapes ", a,
                 " and ", b);
  return {in[1]};
}

// `rcond` has one number per matrix.
Specs infer_pinv(const NoParams&, std::span<const TensorSpec> in) {
  check_matrices("_npi_pinv", in.first(1));
  const Shape& a = in[0].shape;
  const Shape batch(a.span().first(static_cast<size_t>(a.ndim() - 2)));
  MX_CHECK_SHAPE(may_equal(in[1].shape, batch), "linalg.pinv: rcond must have shape ", batch,
                 ", got ", in[1].shape);
  MX_CHECK_DTYPE(in[1].dtype == in[0].dtype, "linalg.pinv: rcond must have dtype ", in[0].dtype,
                 ", got ", in[1].dtype);
  return {{with_last_dims(a, a.back(), a[a.ndim() - 2]), in[0].dtype}};
}

// With F_ij = 1 / (s_j^2 - s_i^2) off the diagonal:
// dA = U ((skew(U^T dU) * F) S + S (skew(V^T dV) * F) + dS) V^T
//      + (I - U U^T) dU S^-1 V^T + U S^-1 dV^T (I - V V^T).
std::vector<ValueRef> grad_svd(GradBuilder& g) {
  const ValueRef u = g.output(0), s = g.output(1), vt = g.output(2);
  const Shape& a = g.input_spec(0).shape;
  const int64_t rows = a[a.ndim() - 2], cols = a.back(), k = std::min(rows, cols);
  ValueRef middle, outside;
  if (g.has_output_grad(1)) middle = diagonal_matrix(g, g.output_grad(1));
  if (g.has_output_grad(0) || g.has_output_grad(2)) {
    const ValueRef gaps = inverse_gaps(g, g.emit("square", {s}));
    const ValueRef inverse = inverse_or_zero(g, s);
    if (g.has_output_grad(0)) {
      const ValueRef du = g.output_grad(0), inner = linalg_lapack_product(g, u, du, true);
      middle = g.add(middle, g.mul(g.mul(skew(g, inner), gaps), as_row(g, s)));
      if (rows > k)
        outside = linalg_lapack_product(
            g, g.mul(g.sub(du, linalg_lapack_product(g, u, inner)), as_row(g, inverse)), vt);
    }
    if (g.has_output_grad(2)) {
      const ValueRef dvt = g.output_grad(2), inner = linalg_lapack_product(g, vt, dvt, false, true);
      middle = g.add(middle, g.mul(g.mul(skew(g, inner), gaps), as_column(g, s)));
      if (cols > k) {
        const ValueRef rest = g.sub(dvt, linalg_lapack_product(g, inner, vt, true));
        outside = linalg_lapack_product(g, u, g.mul(rest, as_column(g, inverse)));
      }
    }
  }
  if (!middle) return {{}};
  const ValueRef inside = linalg_lapack_product(g, u, linalg_lapack_product(g, middle, vt));
  return {g.add(inside, outside)};
}

// Returns (dQ + Q mirror(M)) R^-T with M = R dR^T - dQ^T Q, where mirror copies the lower triangle.
ValueRef grad_square_r(GradBuilder& g, ValueRef q, ValueRef r, ValueRef grad_q, ValueRef grad_r) {
  const ValueRef m = g.sub(linalg_lapack_product(g, r, grad_r, false, true),
                           linalg_lapack_product(g, grad_q, q, true));
  const ValueRef lower = g.emit("_linalg_triangle", {m},
                                std::make_shared<LinalgTrianParams>(LinalgTrianParams{0, true}));
  const ValueRef diagonal = diagonal_matrix(g, g.emit("linalg_extractdiag", {m}));
  const ValueRef mirrored = g.sub(g.add(lower, transposed_linalg_lapack(g, lower)), diagonal);
  return g.emit(
      "linalg_trsm", {r, g.add(grad_q, linalg_lapack_product(g, q, mirrored))},
      std::make_shared<LinalgTriangularParams>(LinalgTriangularParams{true, true, false, 1}));
}

ValueRef columns(GradBuilder& g, ValueRef a, int64_t begin, int64_t end) {
  return g.emit("slice_axis", {a}, {{"axis", int64_t{-1}}, {"begin", begin}, {"end", end}});
}

// A wide A = [X, Y] has Q R' = X and R = [R', Q^T Y].
std::vector<ValueRef> grad_qr(GradBuilder& g) {
  const ValueRef q = g.output(0), r = g.output(1);
  const ValueRef grad_q = g.output_grad(0), grad_r = g.output_grad(1);
  const Shape& a = g.input_spec(0).shape;
  const int64_t rows = a[a.ndim() - 2], cols = a.back();
  if (rows >= cols) return {grad_square_r(g, q, r, grad_q, grad_r)};
  const ValueRef y = columns(g, g.input(0), rows, cols);
  const ValueRef grad_rest = columns(g, grad_r, rows, cols);
  const ValueRef grad_x =
      grad_square_r(g, q, columns(g, r, 0, rows),
                    g.add(grad_q, linalg_lapack_product(g, y, grad_rest, false, true)),
                    columns(g, grad_r, 0, rows));
  return {g.emit_all("Concat", {grad_x, linalg_lapack_product(g, q, grad_rest)},
                     {{"dim", int64_t{-1}}})[0]};
}

// With P = V^T dV and F_ij = 1 / (w_j - w_i) off the diagonal, for eigenvectors of length 1:
// dA = V^-T ((P - V^T V diag(P)) * F + diag(dw)) V^T.
std::vector<ValueRef> grad_eig(GradBuilder& g) {
  const ValueRef w = g.output(0), v = g.output(1);
  ValueRef middle;
  if (g.has_output_grad(0)) middle = diagonal_matrix(g, g.output_grad(0));
  if (g.has_output_grad(1)) {
    const ValueRef p = linalg_lapack_product(g, v, g.output_grad(1), true);
    const ValueRef along = as_row(g, g.emit("linalg_extractdiag", {p}));
    const ValueRef free = g.sub(p, g.mul(linalg_lapack_product(g, v, v, true), along));
    middle = g.add(middle, g.mul(free, inverse_gaps(g, w)));
  }
  if (!middle) return {{}};
  return {g.emit("_npi_solve", {transposed_linalg_lapack(g, v),
                                linalg_lapack_product(g, middle, v, false, true)})};
}

std::vector<ValueRef> grad_solve(GradBuilder& g) {
  const ValueRef grad_b =
      g.emit("_npi_solve", {transposed_linalg_lapack(g, g.input(0)), g.output_grad(0)});
  return {g.needs_grad(0) ? g.neg(linalg_lapack_product(g, grad_b, g.output(0), false, true))
                          : ValueRef{},
          grad_b};
}

// For P = A^+ of constant rank (Golub and Pereyra 1973):
// dA = -P^T dP P^T + (I - A P) dP^T P P^T + P^T P dP^T (I - P A).
std::vector<ValueRef> grad_pinv(GradBuilder& g) {
  const ValueRef a = g.input(0), p = g.output(0), dp = g.output_grad(0);
  const ValueRef right =
      linalg_lapack_product(g, linalg_lapack_product(g, dp, p, true), p, false, true);
  const ValueRef left =
      linalg_lapack_product(g, p, linalg_lapack_product(g, p, dp, false, true), true);
  const ValueRef both =
      linalg_lapack_product(g, linalg_lapack_product(g, p, dp, true), p, false, true);
  const ValueRef rest =
      g.add(g.sub(right, linalg_lapack_product(g, a, linalg_lapack_product(g, p, right))),
            g.sub(left, linalg_lapack_product(g, linalg_lapack_product(g, left, p), a)));
  return {g.sub(rest, both), {}};
}

OpBuilder<NoParams> decomposition(const char* name, int outputs, const char* shapes,
                                  const char* doc) {
  OpBuilder<NoParams> op(name);
  op.inputs({"A"}).outputs(outputs).shapes(shapes).doc(doc);
  return op;
}

}  // namespace

static const Registration linalg_lapack_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(decomposition(
              "_npi_svd", 3, "(..., m, n) -> U: (..., m, k), S: (..., k), V: (..., k, n)",
              "Singular value decomposition A = U * diag(S) * V with descending singular values S "
              "and singular vectors as columns of U and rows of V; k is the smaller of m and n.")
              .infer(infer_svd)
              .gradient(grad_svd));
  ops.add(decomposition("_npi_qr", 2, "(..., m, n) -> Q: (..., m, k), R: (..., k, n)",
                        "QR decomposition A = Q * R with orthonormal columns in Q and upper "
                        "triangular R; k is the smaller of m and n.")
              .infer(infer_qr)
              .gradient(grad_qr));
  ops.add(decomposition("_npi_eig", 2, "(..., n, n) -> w: (..., n), V: (..., n, n)",
                        "Eigenvalues w, which must be real, and eigenvectors V of length 1 as "
                        "columns: A * V = V * diag(w).")
              .infer(infer_eig)
              .gradient(grad_eig));
  ops.add(decomposition("_npi_pinv", 1, "(..., m, n), (...) -> (..., n, m)",
                        "Pseudo-inverse of each matrix. Singular values of at most rcond times the "
                        "largest one count as 0.")
              .inputs({"A", "rcond"})
              .infer(infer_pinv)
              .gradient(grad_pinv));
  ops.add(OpBuilder<NoParams>("_npi_solve")
              .inputs({"A", "B"})
              .shapes("(..., n, n), (..., n, k) -> (..., n, k)")
              .doc("Solution X of A * X = B.")
              .infer(infer_solve)
              .gradient(grad_solve));
});

}  // namespace mxlite
