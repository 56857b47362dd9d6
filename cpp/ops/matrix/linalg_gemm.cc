// linalg_gemm, linalg_gemm2, linalg_syrk.
#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/matrix/linalg.h"
#include "cpp/ops/registration.h"

namespace mxlite {

void check_matrices(const char* op, std::span<const TensorSpec> in, bool halves) {
  for (size_t i = 0; i < in.size(); ++i) {
    MX_CHECK_SHAPE(in[i].shape.ndim() >= 2, op,
                   ": matrix must have at least 2 dimensions, got shape ", in[i].shape);
    MX_CHECK_DTYPE(is_floating(in[i].dtype) && (halves || !is_half(in[i].dtype)), op,
                   ": dtype must be ", halves ? "a float type" : "float32 or float64", ", got ",
                   in[i].dtype);
    MX_CHECK_DTYPE(in[i].dtype == in[0].dtype, op, ": all inputs must have the dtype of A, ",
                   in[0].dtype, ", got ", in[i].dtype);
  }
}

void check_square(const char* op, const TensorSpec& a, bool halves) {
  check_matrices(op, {&a, 1}, halves);
  const Shape& s = a.shape;
  MX_CHECK_SHAPE(may_equal(s[s.ndim() - 2], s.back()), op,
                 ": A must be square matrices, got shape ", s);
}

int64_t square_size(const Shape& shape) { return merged(shape.back(), shape[shape.ndim() - 2]); }

Shape leading_shape(const Shape& shape, int count) {
  Shape to(shape.span().first(static_cast<size_t>(shape.ndim() - count)));
  if (to.ndim() == 0) to.push_back(1);  // as in 1.x, which has no 0-d arrays
  return to;
}

namespace {

// Returns the shape of op(A) op(B).
template <class P>
Shape product_shape(const char* op, const P& p, const Shape& a, const Shape& b) {
  const int axis = normalize_axis(op, p.axis, a.ndim());
  bool fits = a.ndim() == b.ndim() && axis < a.ndim() - 1;
  for (int i = 0; fits && i < a.ndim() - 1; ++i) fits = i == axis || may_equal(a[i], b[i]);
  MX_CHECK_SHAPE(fits, op, ": A and B must hold the same number of matrices with rows at axis ",
                 p.axis, ", got shapes ", a, " and ", b);
  const int64_t m = p.transpose_a ? a.back() : a[axis], k = p.transpose_a ? a[axis] : a.back();
  const int64_t n = p.transpose_b ? b[axis] : b.back(), kb = p.transpose_b ? b.back() : b[axis];
  MX_CHECK_SHAPE(may_equal(k, kb), op, ": A of shape ", a, p.transpose_a ? " (transposed)" : "",
                 " and B of shape ", b, p.transpose_b ? " (transposed)" : "",
                 " cannot be multiplied: the summed axes have ", k, " and ", kb, " elements");
  Shape to = merged(a, b);
  to[axis] = m;
  to[to.ndim() - 1] = n;
  return to;
}

Specs infer_gemm(const LinalgGemmParams& p, std::span<const TensorSpec> in) {
  check_matrices("linalg_gemm", in, true);
  const Shape to = product_shape("linalg_gemm", p, in[0].shape, in[1].shape);
  MX_CHECK_SHAPE(may_equal(in[2].shape, to), "linalg_gemm: C must have the shape of the product ",
                 to, ", got ", in[2].shape);
  return {{merged(to, in[2].shape), in[0].dtype}};
}

void refine_gemm(const LinalgGemmParams& p, PartialShapes& shapes) {
  const Shape &a = shapes.input(0), &b = shapes.input(1);
  if (a.ndim() >= 2 && b.ndim() >= 2)
    shapes.refine_output(0, product_shape("linalg_gemm", p, a, b));
  shapes.refine_output(0, shapes.input(2));
  shapes.refine_input(2, shapes.output(0));
}

Specs infer_gemm2(const LinalgGemm2Params& p, std::span<const TensorSpec> in) {
  check_matrices("linalg_gemm2", in, true);
  return {{product_shape("linalg_gemm2", p, in[0].shape, in[1].shape), in[0].dtype}};
}

Specs infer_syrk(const LinalgSyrkParams& p, std::span<const TensorSpec> in) {
  check_matrices("linalg_syrk", in, true);
  Shape to = in[0].shape;
  const int last = to.ndim() - 1;
  to[p.transpose ? last - 1 : last] = to[p.transpose ? last : last - 1];
  return {{to, in[0].dtype}};
}

ValueRef linalg_gemm_product(GradBuilder& g, ValueRef a, ValueRef b, LinalgGemm2Params p) {
  return g.emit("linalg_gemm2", {a, b}, std::make_shared<LinalgGemm2Params>(p));
}

template <class P>
std::vector<ValueRef> grad_product(GradBuilder& g) {
  const auto& p = g.params<P>();
  const ValueRef grad = g.output_grad(0);
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  if (g.needs_grad(0))
    grads[0] =
        p.transpose_a
            ? linalg_gemm_product(g, g.input(1), grad, {p.transpose_b, true, p.alpha, p.axis})
            : linalg_gemm_product(g, grad, g.input(1), {false, !p.transpose_b, p.alpha, p.axis});
  if (g.needs_grad(1))
    grads[1] =
        p.transpose_b
            ? linalg_gemm_product(g, grad, g.input(0), {true, p.transpose_a, p.alpha, p.axis})
            : linalg_gemm_product(g, g.input(0), grad, {!p.transpose_a, false, p.alpha, p.axis});
  if constexpr (std::is_same_v<P, LinalgGemmParams>)
    if (g.needs_grad(2)) grads[2] = g.mul_scalar(grad, p.beta);
  return grads;
}

// dA = (G + G^T) A or A (G + G^T).
std::vector<ValueRef> grad_syrk(GradBuilder& g) {
  const auto& p = g.params<LinalgSyrkParams>();
  const ValueRef grad = g.output_grad(0), a = g.input(0);
  const auto term = [&](bool transposed) {
    return p.transpose ? linalg_gemm_product(g, a, grad, {false, transposed, p.alpha})
                       : linalg_gemm_product(g, grad, a, {transposed, false, p.alpha});
  };
  return {g.add(term(false), term(true))};
}

}  // namespace

static const Registration linalg_gemm_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<LinalgGemmParams>("linalg_gemm")
              .alias({"_linalg_gemm"})
              .inputs({"A", "B", "C"})
              .doc("alpha * op(A) * op(B) + beta * C for every matrix.")
              .shapes("A: (..., m, k), B: (..., k, n), C: (..., m, n) -> (..., m, n)")
              .infer(infer_gemm)
              .refine(refine_gemm)
              .gradient(grad_product<LinalgGemmParams>)
              .inplace(2, 0));
  ops.add(OpBuilder<LinalgGemm2Params>("linalg_gemm2")
              .alias({"_linalg_gemm2"})
              .inputs({"A", "B"})
              .doc("alpha * op(A) * op(B) for every pair of matrices.")
              .shapes("A: (..., m, k), B: (..., k, n) -> (..., m, n)")
              .infer(infer_gemm2)
              .gradient(grad_product<LinalgGemm2Params>));
  ops.add(OpBuilder<LinalgSyrkParams>("linalg_syrk")
              .alias({"_linalg_syrk"})
              .inputs({"A"})
              .doc("alpha * A * A^T, or alpha * A^T * A, for every matrix.")
              .shapes("(..., m, n) -> (..., m, m); transpose: (..., n, n)")
              .infer(infer_syrk)
              .gradient(grad_syrk));
});

}  // namespace mxlite
