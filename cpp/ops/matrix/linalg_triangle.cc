// Triangular products and solves, and copies of triangles and diagonals from and to matrices.
#include <cmath>
#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/matrix/linalg.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class P>
ParamsRef share_triangle(P p) {
  return std::make_shared<P>(p);
}

void check_triangular(const char* op, const LinalgTriangularParams& p,
                      std::span<const TensorSpec> in) {
  check_matrices(op, in);
  check_square(op, in[0]);
  const Shape& a = in[0].shape;
  const Shape& b = in[1].shape;
  const int lead = a.ndim() - 2;
  bool fits = b.ndim() == a.ndim() && may_equal(b[p.rightside ? lead + 1 : lead], a.back());
  for (int i = 0; fits && i < lead; ++i) fits = may_equal(a[i], b[i]);
  MX_CHECK_SHAPE(fits, op, ": A must have the batch of B and as many rows as B has ",
                 p.rightside ? "columns" : "rows", ", got shapes ", a, " and ", b);
}

Specs infer_trmm(const LinalgTriangularParams& p, std::span<const TensorSpec> in) {
  check_triangular("linalg_trmm", p, in);
  return {in[1]};
}
Specs infer_trsm(const LinalgTriangularParams& p, std::span<const TensorSpec> in) {
  check_triangular("linalg_trsm", p, in);
  return {in[1]};
}

// The result has the shape of B. A has as many rows as B has rows (or columns, if A is on the
// right).
void refine_triangular(const LinalgTriangularParams& p, PartialShapes& shapes) {
  shapes.refine_output(0, shapes.input(1));
  shapes.refine_input(1, shapes.output(0));
  Shape a = shapes.input(1);
  if (a.ndim() < 2) return;
  const int last = a.ndim() - 1;
  a[last - 1] = a[last] = a[p.rightside ? last : last - 1];
  shapes.refine_input(0, a);
}

Specs infer_triangle(const LinalgTrianParams&, std::span<const TensorSpec> in) {
  check_square("_linalg_triangle", in[0]);
  return {in[0]};
}

Specs infer_extractdiag(const LinalgOffsetParams& p, std::span<const TensorSpec> in) {
  check_square("linalg_extractdiag", in[0], /*halves=*/true);
  const int64_t size = square_size(in[0].shape), n = size - std::abs(p.offset);
  MX_CHECK(!is_known(size) || n > 0 || (n == 0 && p.offset == 0),
           "linalg_extractdiag: offset must name a diagonal of A of shape ", in[0].shape, ", got ",
           p.offset);
  Shape to(in[0].shape.span().first(static_cast<size_t>(in[0].shape.ndim() - 2)));
  to.push_back(is_known(size) ? n : kUnknownDim);
  return {{to, in[0].dtype}};
}

Specs infer_makediag(const LinalgOffsetParams& p, std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(in[0].shape.ndim() >= 1,
                 "linalg_makediag: A must have at least 1 dimension, got shape ()");
  Shape to = in[0].shape;
  const int64_t n = add_to_dim(to.back(), std::abs(p.offset));
  to[to.ndim() - 1] = n;
  to.push_back(n);
  return {{to, in[0].dtype}};
}

Specs infer_extracttrian(const LinalgTrianParams& p, std::span<const TensorSpec> in) {
  check_square("linalg_extracttrian", in[0], /*halves=*/true);
  const int64_t size = square_size(in[0].shape), n = size - p.distance();
  MX_CHECK(!is_known(size) || n >= 0,
           "linalg_extracttrian: offset must name a triangle of A of shape ", in[0].shape, ", got ",
           p.offset);
  Shape to(in[0].shape.span().first(static_cast<size_t>(in[0].shape.ndim() - 2)));
  to.push_back(is_known(size) ? checked_mul(n, checked_add(n, 1)) / 2 : kUnknownDim);
  return {{to, in[0].dtype}};
}

Specs infer_maketrian(const LinalgTrianParams& p, std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(in[0].shape.ndim() >= 1,
                 "linalg_maketrian: A must have at least 1 dimension, got shape ()");
  Shape to = in[0].shape;
  const int64_t n = if_known(
      [&p](int64_t packed) {
        const auto size = static_cast<int64_t>(std::sqrt(2.0 * static_cast<double>(packed)));
        MX_CHECK_SHAPE(
            checked_mul(size, size + 1) / 2 == packed,
            "linalg_maketrian: the last axis of A must have n * (n + 1) / 2 elements, got ",
            packed);
        return checked_add(size, p.distance());
      },
      to.back());
  to[to.ndim() - 1] = n;
  to.push_back(n);
  return {{to, in[0].dtype}};
}

Specs infer_sumlogdiag(const NoParams&, std::span<const TensorSpec> in) {
  check_square("linalg_sumlogdiag", in[0]);
  return {{leading_shape(in[0].shape, 2), in[0].dtype}};
}

ValueRef linalg_triangle_product(GradBuilder& g, ValueRef a, ValueRef b, bool transpose_a,
                                 bool transpose_b, double alpha) {
  return g.emit("linalg_gemm2", {a, b},
                share_triangle(LinalgGemm2Params{transpose_a, transpose_b, alpha, -2}));
}

ValueRef keep_triangle(GradBuilder& g, ValueRef a, bool lower) {
  return g.emit("_linalg_triangle", {a}, share_triangle(LinalgTrianParams{0, lower}));
}

std::vector<ValueRef> grad_trmm(GradBuilder& g) {
  const auto& p = g.params<LinalgTriangularParams>();
  const ValueRef grad = g.output_grad(0);
  std::vector<ValueRef> grads(2);
  if (g.needs_grad(0)) {
    const ValueRef b = g.input(1);
    ValueRef full;
    if (p.rightside)
      full = p.transpose ? linalg_triangle_product(g, grad, b, true, false, p.alpha)
                         : linalg_triangle_product(g, b, grad, true, false, p.alpha);
    else
      full = p.transpose ? linalg_triangle_product(g, b, grad, false, true, p.alpha)
                         : linalg_triangle_product(g, grad, b, false, true, p.alpha);
    grads[0] = keep_triangle(g, full, p.lower);
  }
  if (g.needs_grad(1)) {
    LinalgTriangularParams back = p;
    back.transpose = !p.transpose;
    grads[1] = g.emit("linalg_trmm", {g.input(0), grad}, share_triangle(back));
  }
  return grads;
}

std::vector<ValueRef> grad_trsm(GradBuilder& g) {
  const auto& p = g.params<LinalgTriangularParams>();
  LinalgTriangularParams back = p;
  back.transpose = !p.transpose;
  back.alpha = 1;
  const ValueRef solved =
      g.emit("linalg_trsm", {g.input(0), g.output_grad(0)}, share_triangle(back));
  std::vector<ValueRef> grads(2);
  if (g.needs_grad(0)) {
    const ValueRef x = g.output(0);
    ValueRef full;
    if (p.rightside)
      full = p.transpose ? linalg_triangle_product(g, solved, x, true, false, -1)
                         : linalg_triangle_product(g, x, solved, true, false, -1);
    else
      full = p.transpose ? linalg_triangle_product(g, x, solved, false, true, -1)
                         : linalg_triangle_product(g, solved, x, false, true, -1);
    grads[0] = keep_triangle(g, full, p.lower);
  }
  if (g.needs_grad(1)) grads[1] = p.alpha == 1 ? solved : g.mul_scalar(solved, p.alpha);
  return grads;
}

std::vector<ValueRef> grad_triangle(GradBuilder& g) {
  return {g.emit("_linalg_triangle", {g.output_grad(0)}, g.params_ref())};
}
std::vector<ValueRef> grad_extractdiag(GradBuilder& g) {
  return {g.emit("linalg_makediag", {g.output_grad(0)}, g.params_ref())};
}
std::vector<ValueRef> grad_makediag(GradBuilder& g) {
  if (g.input_spec(0).shape.size() == 0) return {g.zeros(g.input_spec(0))};
  return {g.emit("linalg_extractdiag", {g.output_grad(0)}, g.params_ref())};
}
std::vector<ValueRef> grad_extracttrian(GradBuilder& g) {
  return {g.emit("linalg_maketrian", {g.output_grad(0)}, g.params_ref())};
}
std::vector<ValueRef> grad_maketrian(GradBuilder& g) {
  return {g.emit("linalg_extracttrian", {g.output_grad(0)}, g.params_ref())};
}

std::vector<ValueRef> grad_sumlogdiag(GradBuilder& g) {
  Shape column(
      g.input_spec(0).shape.span().first(static_cast<size_t>(g.input_spec(0).shape.ndim() - 2)));
  column.push_back(1);
  const ValueRef diagonal = g.emit("linalg_extractdiag", {g.input(0)});
  return {g.emit("linalg_makediag", {g.div(g.reshape(g.output_grad(0), column), diagonal)})};
}

}  // namespace

static const Registration linalg_triangle_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<LinalgTriangularParams>("linalg_trmm")
              .alias({"_linalg_trmm"})
              .inputs({"A", "B"})
              .doc("alpha * op(A) * B with triangular A, or alpha * B * op(A).")
              .shapes("A: (..., m, m), B: (..., m, n) -> (..., m, n); rightside: B A")
              .infer(infer_trmm)
              .refine(refine_triangular)
              .gradient(grad_trmm));
  ops.add(
      OpBuilder<LinalgTriangularParams>("linalg_trsm")
          .alias({"_linalg_trsm"})
          .inputs({"A", "B"})
          .doc("The X that solves op(A) * X = alpha * B with triangular A, or X * op(A) = alpha "
               "* B.")
          .shapes("A: (..., m, m), B: (..., m, n) -> (..., m, n); rightside: X A = B")
          .infer(infer_trsm)
          .refine(refine_triangular)
          .gradient(grad_trsm));
  ops.add(OpBuilder<LinalgTrianParams>("_linalg_triangle")
              .inputs({"A"})
              .doc("Returns A with zeros outside of one triangle.")
              .shapes("(..., n, n) -> the same shape")
              .infer(infer_triangle)
              .gradient(grad_triangle));
  ops.add(OpBuilder<LinalgOffsetParams>("linalg_extractdiag")
              .alias({"_linalg_extractdiag"})
              .inputs({"A"})
              .doc("A diagonal of every matrix.")
              .shapes("(..., n, n) -> (..., n - |offset|)")
              .infer(infer_extractdiag)
              .gradient(grad_extractdiag));
  ops.add(OpBuilder<LinalgOffsetParams>("linalg_makediag")
              .alias({"_linalg_makediag"})
              .inputs({"A"})
              .doc("Makes matrices with A on one diagonal and 0 elsewhere.")
              .shapes("(..., n) -> (..., n + |offset|, n + |offset|)")
              .infer(infer_makediag)
              .gradient(grad_makediag));
  ops.add(OpBuilder<LinalgTrianParams>("linalg_extracttrian")
              .alias({"_linalg_extracttrian"})
              .inputs({"A"})
              .doc("Extracts a triangle of each matrix as a vector: a lower triangle row by row, "
                   "an upper triangle column by column.")
              .shapes("(..., n, n) -> (..., entries of the triangle)")
              .infer(infer_extracttrian)
              .gradient(grad_extracttrian));
  ops.add(OpBuilder<LinalgTrianParams>("linalg_maketrian")
              .alias({"_linalg_maketrian"})
              .inputs({"A"})
              .doc("Makes matrices with A in one triangle, in the order of linalg_extracttrian, "
                   "and 0 elsewhere.")
              .shapes("(..., entries of the triangle) -> (..., n, n)")
              .infer(infer_maketrian)
              .gradient(grad_maketrian));
  ops.add(OpBuilder<NoParams>("linalg_sumlogdiag")
              .alias({"_linalg_sumlogdiag"})
              .inputs({"A"})
              .doc("Sum of the logarithms of every matrix's diagonal.")
              .shapes("(..., n, n) -> (...)")
              .infer(infer_sumlogdiag)
              .gradient(grad_sumlogdiag));
});

}  // namespace mxlite
