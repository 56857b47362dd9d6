// Factorizations: potrf, potri, gelqf, syevd, inverse, det, slogdet. Gradients are compositions of
// products and triangular solves (Murray 2016; Seeger et al. 2017).
#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/matrix/linalg.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class P>
ParamsRef share(P p) {
  return std::make_shared<P>(p);
}

ValueRef factor_product(GradBuilder& g, ValueRef a, ValueRef b, bool transpose_a = false,
                        bool transpose_b = false, double alpha = 1) {
  return g.emit("linalg_gemm2", {a, b},
                share(LinalgGemm2Params{transpose_a, transpose_b, alpha, -2}));
}

ValueRef solve(GradBuilder& g, ValueRef a, ValueRef b, bool transpose, bool rightside) {
  return g.emit("linalg_trsm", {a, b},
                share(LinalgTriangularParams{transpose, rightside, true, 1}));
}

ValueRef transposed(GradBuilder& g, ValueRef a) {
  return g.emit("SwapAxis", {a}, {{"dim1", int64_t{-1}}, {"dim2", int64_t{-2}}});
}

ValueRef lower_triangle(GradBuilder& g, ValueRef a) {
  return g.emit("_linalg_triangle", {a}, share(LinalgTrianParams{0, true}));
}

// Copies the lower triangle of a to the upper triangle.
ValueRef mirror_lower(GradBuilder& g, ValueRef a) {
  const ValueRef lower = lower_triangle(g, a);
  const ValueRef diagonal = g.emit("linalg_makediag", {g.emit("linalg_extractdiag", {a})});
  return g.sub(g.add(lower, transposed(g, lower)), diagonal);
}

// Returns output_grad, one number per matrix, reshaped so that it multiplies matrices.
ValueRef per_matrix(GradBuilder& g, ValueRef value) {
  Shape shape(
      g.input_spec(0).shape.span().first(static_cast<size_t>(g.input_spec(0).shape.ndim() - 2)));
  shape.push_back(1);
  shape.push_back(1);
  return g.reshape(value, shape);
}

Specs infer_potrf(const LinalgFactorParams&, std::span<const TensorSpec> in) {
  check_square("linalg_potrf", in[0]);
  return {in[0]};
}
Specs infer_potri(const LinalgFactorParams&, std::span<const TensorSpec> in) {
  check_square("linalg_potri", in[0]);
  return {in[0]};
}
Specs infer_matrix_inverse(const NoParams&, std::span<const TensorSpec> in) {
  check_square("linalg_inverse", in[0]);
  return {in[0]};
}
Specs infer_det(const NoParams&, std::span<const TensorSpec> in) {
  check_square("linalg_det", in[0]);
  return {{leading_shape(in[0].shape, 2), in[0].dtype}};
}
Specs infer_slogdet(const NoParams&, std::span<const TensorSpec> in) {
  check_square("linalg_slogdet", in[0]);
  const TensorSpec one{leading_shape(in[0].shape, 2), in[0].dtype};
  return {one, one};
}
Specs infer_gelqf(const NoParams&, std::span<const TensorSpec> in) {
  check_matrices("linalg_gelqf", in);
  const Shape& a = in[0].shape;
  const int64_t rows = a[a.ndim() - 2];
  MX_CHECK_SHAPE(may_be_at_most(rows, a.back()),
                 "linalg_gelqf: A must have at most as many rows as columns, got shape ", a);
  Shape l = a;
  l[l.ndim() - 1] = rows;
  return {in[0], {l, in[0].dtype}};
}
Specs infer_syevd(const NoParams&, std::span<const TensorSpec> in) {
  check_square("linalg_syevd", in[0]);
  Shape values = in[0].shape;
  values.erase(values.ndim() - 1);
  return {in[0], {values, in[0].dtype}};
}
Specs infer_syevd_backward(const NoParams&, std::span<const TensorSpec> in) { return {in[0]}; }

// dA = 1/2 L^-T mirror(L^T dL) L^-1.
std::vector<ValueRef> grad_potrf(GradBuilder& g) {
  const bool lower = g.params<LinalgFactorParams>().lower;
  const ValueRef l = lower ? g.output(0) : transposed(g, g.output(0));
  const ValueRef grad = lower ? g.output_grad(0) : transposed(g, g.output_grad(0));
  const ValueRef middle = mirror_lower(g, factor_product(g, l, grad, true, false, 0.5));
  return {solve(g, l, solve(g, l, middle, true, false), false, true)};
}

// B = (L L^T)^-1: dL = -lower(B (dB + dB^T) L^-T).
std::vector<ValueRef> grad_potri(GradBuilder& g) {
  const ValueRef grad = g.output_grad(0);
  const ValueRef both =
      factor_product(g, g.output(0), g.add(grad, transposed(g, grad)), false, false, -1);
  if (g.params<LinalgFactorParams>().lower)
    return {lower_triangle(g, solve(g, g.input(0), both, true, true))};
  const ValueRef l = transposed(g, g.input(0));
  return {transposed(g, lower_triangle(g, solve(g, l, both, true, true)))};
}

std::vector<ValueRef> grad_inverse(GradBuilder& g) {
  const ValueRef b = g.output(0);
  return {
      factor_product(g, b, factor_product(g, g.output_grad(0), b, false, true), true, false, -1)};
}

// The gradients of determinants are multiples of A^-T that are 0 where A is singular, as in 1.x.
// For singular matrices the identity matrix is inverted instead. `determinant` may also be the sign
// of the determinant.
struct RegularInverse {
  ValueRef transposed, is_regular;
};
RegularInverse regular_inverse(GradBuilder& g, ValueRef determinant) {
  const ValueRef is_singular = g.emit("_equal_scalar", {determinant}, {{"scalar", 0.0}});
  const ValueRef is_regular = g.add_scalar(g.neg(is_singular), 1);
  const ValueRef ones = g.emit("ones_like", {g.emit("linalg_extractdiag", {g.input(0)})});
  const ValueRef identity = g.emit("linalg_makediag", {ones});
  const ValueRef a = g.add(g.mul(g.input(0), per_matrix(g, is_regular)),
                           g.mul(identity, per_matrix(g, is_singular)));
  return {transposed(g, g.emit("linalg_inverse", {a})), is_regular};
}

std::vector<ValueRef> grad_det(GradBuilder& g) {
  const ValueRef inverse = regular_inverse(g, g.output(0)).transposed;
  return {g.mul(per_matrix(g, g.mul(g.output_grad(0), g.output(0))), inverse)};
}

std::vector<ValueRef> grad_slogdet(GradBuilder& g) {
  const RegularInverse inverse = regular_inverse(g, g.output(0));
  return {g.mul(per_matrix(g, g.mul(g.output_grad(1), inverse.is_regular)), inverse.transposed)};
}

// dA = L^-T (dQ + mirror(L^T dL - dQ Q^T) Q).
std::vector<ValueRef> grad_gelqf(GradBuilder& g) {
  const ValueRef q = g.output(0), l = g.output(1);
  const ValueRef grad_q = g.output_grad(0);
  const ValueRef m = g.sub(factor_product(g, l, g.output_grad(1), true),
                           factor_product(g, grad_q, q, false, true));
  return {solve(g, l, g.add(grad_q, factor_product(g, mirror_lower(g, m), q)), true, false)};
}

std::vector<ValueRef> grad_syevd(GradBuilder& g) {
  const ValueRef u = g.output(0);
  const ValueRef inner =
      g.emit("_linalg_syevd_backward",
             {factor_product(g, g.output_grad(0), u, false, true), g.output_grad(1), g.output(1)});
  return {factor_product(g, u, factor_product(g, inner, u), true)};
}

template <class P = NoParams>
OpBuilder<P> factor(const char* name, const char* alias, const char* doc) {
  OpBuilder<P> op(name);
  op.alias({alias}).inputs({"A"}).doc(doc);
  return op;
}

}  // namespace

static const Registration linalg_factor_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(factor<LinalgFactorParams>(
              "linalg_potrf", "_linalg_potrf",
              "Cholesky factor of a positive definite A: triangular L with L * L^T = A, or "
              "L^T * L = A for an upper one.")
              .shapes("(..., n, n) -> (..., n, n)")
              .infer(infer_potrf)
              .refine(refine_like_first)
              .gradient(grad_potrf));
  ops.add(factor<LinalgFactorParams>("linalg_potri", "_linalg_potri",
                                     "Inverse (A * A^T)^-1 of a positive definite matrix, where A "
                                     "is the lower triangular Cholesky factor of this matrix.")
              .shapes("(..., n, n) -> (..., n, n)")
              .infer(infer_potri)
              .refine(refine_like_first)
              .gradient(grad_potri));
  ops.add(factor("linalg_inverse", "_linalg_inverse", "Inverse of each matrix.")
              .shapes("(..., n, n) -> (..., n, n)")
              .infer(infer_matrix_inverse)
              .refine(refine_like_first)
              .gradient(grad_inverse));
  ops.add(factor("linalg_det", "_linalg_det", "Determinant of every matrix.")
              .shapes("(..., n, n) -> (...)")
              .infer(infer_det)
              .gradient(grad_det)
              .total_outputs(3));
  ops.add(factor("linalg_slogdet", "_linalg_slogdet",
                 "Sign and logarithm of the absolute value of every matrix's determinant.")
              .shapes("(..., n, n) -> sign: (...), logarithm: (...)")
              .outputs(2)
              .infer(infer_slogdet)
              .gradient(grad_slogdet)
              .total_outputs(4));
  ops.add(factor("linalg_gelqf", "_linalg_gelqf",
                 "LQ factors (Q, L): A = L * Q with lower triangular L and orthonormal rows in Q.")
              .shapes("(..., m, n) with m <= n -> Q: (..., m, n), L: (..., m, m)")
              .outputs(2)
              .infer(infer_gelqf)
              .gradient(grad_gelqf));
  ops.add(factor("linalg_syevd", "_linalg_syevd",
                 "Eigenvectors as rows of U and ascending eigenvalues L of symmetric A: A = U^T * "
                 "diag(L) * U.")
              .shapes("(..., n, n) -> U: (..., n, n), L: (..., n)")
              .outputs(2)
              .infer(infer_syevd)
              .gradient(grad_syevd));
  ops.add(OpBuilder<NoParams>("_linalg_syevd_backward")
              .internal()
              .inputs({"grad_u", "grad_l", "L"})
              .doc("Inner matrix of linalg_syevd's gradient, in the basis of the eigenvectors.")
              .infer(infer_syevd_backward));
});

}  // namespace mxlite
