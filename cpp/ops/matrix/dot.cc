#include "cpp/ops/matrix/dot.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {

MatrixSizes dot_sizes(const DotParams& p, const Shape& lhs, const Shape& rhs) {
  MatrixSizes s;
  s.k = p.transpose_a ? lhs[0] : lhs.back();
  s.m = p.transpose_a ? lhs.product(1, lhs.ndim()) : lhs.product(0, lhs.ndim() - 1);
  s.rhs_k = p.transpose_b ? rhs.back() : rhs[0];
  s.n = p.transpose_b ? rhs.product(0, rhs.ndim() - 1) : rhs.product(1, rhs.ndim());
  return s;
}

MatrixSizes numpy_dot_sizes(const Shape& lhs, const Shape& rhs) {
  const int lead = rhs.ndim() - 2;
  return {.batch = rhs.product(0, lead),
          .m = lhs.product(0, lhs.ndim() - 1),
          .n = rhs.back(),
          .k = lhs.back(),
          .rhs_k = rhs[lead]};
}

MatrixSizes batch_dot_sizes(const DotParams& p, const Shape& lhs, const Shape& rhs) {
  const int l = lhs.ndim() - 2, r = rhs.ndim() - 2;
  MatrixSizes s;
  s.batch = lhs.product(0, l);
  s.m = lhs[p.transpose_a ? l + 1 : l];
  s.k = lhs[p.transpose_a ? l : l + 1];
  s.rhs_k = rhs[p.transpose_b ? r + 1 : r];
  s.n = rhs[p.transpose_b ? r : r + 1];
  return s;
}

namespace {

void check_operands(const char* op, std::span<const TensorSpec> in, int min_ndim) {
  MX_CHECK_DTYPE(in[0].dtype == in[1].dtype, op, ": rhs must have the dtype of lhs, ", in[0].dtype,
                 ", got ", in[1].dtype);
  MX_CHECK_DTYPE(in[0].dtype != DType::kBool, op,
                 ": lhs and rhs must have a numeric dtype, got bool");
  MX_CHECK_SHAPE(in[0].shape.ndim() >= min_ndim && in[1].shape.ndim() >= min_ndim, op,
                 ": lhs and rhs must have at least ", min_ndim, " dimensions, got shapes ",
                 in[0].shape, " and ", in[1].shape);
}

void check_inner(const char* op, const DotParams& p, const MatrixSizes& s,
                 std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(may_equal(s.k, s.rhs_k), op, ": lhs of shape ", in[0].shape,
                 p.transpose_a ? " (transposed)" : "", " and rhs of shape ", in[1].shape,
                 p.transpose_b ? " (transposed)" : "",
                 " cannot be multiplied: the summed axes have ", s.k, " and ", s.rhs_k,
                 " elements");
}

Specs infer_product(const char* op, const DotParams& p, std::span<const TensorSpec> in) {
  check_operands(op, in, 1);
  const Shape& lhs = in[0].shape;
  const Shape& rhs = in[1].shape;
  check_inner(op, p, dot_sizes(p, lhs, rhs), in);
  Shape to;
  for (int i = p.transpose_a ? 1 : 0; i < lhs.ndim() - (p.transpose_a ? 0 : 1); ++i)
    to.push_back(lhs[i]);
  for (int i = p.transpose_b ? 0 : 1; i < rhs.ndim() - (p.transpose_b ? 1 : 0); ++i)
    to.push_back(rhs[i]);
  if (to.ndim() == 0) to.push_back(1);  // as in 1.x, which has no 0-d arrays
  return {{to, in[0].dtype}};
}

Specs infer_dot(const DotParams& p, std::span<const TensorSpec> in) {
  return infer_product("dot", p, in);
}

// Takes an unknown length of the summed axis from the other operand.
void complete_numpy_dot(const DotParams&, std::span<TensorSpec> in) {
  Shape &lhs = in[0].shape, &rhs = in[1].shape;
  if (lhs.ndim() < 1 || rhs.ndim() < 1) return;
  int64_t& k = lhs[lhs.ndim() - 1];
  int64_t& rhs_k = rhs[std::max(rhs.ndim() - 2, 0)];
  if (!is_known(k)) k = rhs_k;
  if (!is_known(rhs_k)) rhs_k = k;
}

Specs infer_numpy_dot(const DotParams& p, std::span<const TensorSpec> in) {
  const Shape &lhs = in[0].shape, &rhs = in[1].shape;
  if (rhs.ndim() > 2) {
    check_operands("_np_dot", in, 1);
    check_inner("_np_dot", p, numpy_dot_sizes(lhs, rhs), in);
    Shape to;
    for (int i = 0; i < lhs.ndim() - 1; ++i) to.push_back(lhs[i]);
    for (int i = 0; i < rhs.ndim(); ++i)
      if (i != rhs.ndim() - 2) to.push_back(rhs[i]);
    return {{to, in[0].dtype}};
  }
  Specs result = infer_product("_np_dot", p, in);
  if (in[0].shape.ndim() == 1 && in[1].shape.ndim() == 1) result[0].shape = {};
  return result;
}

Specs infer_batch_dot(const DotParams& p, std::span<const TensorSpec> in) {
  check_operands("batch_dot", in, 3);
  Shape to = in[0].shape;
  const int lead = to.ndim() - 2;
  bool fits = in[1].shape.ndim() == to.ndim();
  for (int i = 0; fits && i < lead; ++i) fits = may_equal(in[1].shape[i], to[i]);
  MX_CHECK_SHAPE(fits, "batch_dot: lhs and rhs must have the same batch dimensions, got shapes ",
                 in[0].shape, " and ", in[1].shape);
  const MatrixSizes s = batch_dot_sizes(p, in[0].shape, in[1].shape);
  check_inner("batch_dot", p, s, in);
  if (!is_known(s.k) || !is_known(s.rhs_k)) return {{Shape::unknown(), in[0].dtype}};  // as in 1.x
  for (int i = 0; i < lead; ++i) to[i] = merged(to[i], in[1].shape[i]);
  to[lead] = s.m;
  to[lead + 1] = s.n;
  return {{to, in[0].dtype}};
}

std::shared_ptr<DotParams> transposed_dot(bool a, bool b) {
  auto params = std::make_shared<DotParams>();
  params->transpose_a = a;
  params->transpose_b = b;
  return params;
}

// Gradients of C = op(A) op(B), computed as products of C's gradient and the other operand in its
// stored form.
std::vector<ValueRef> product_grads(GradBuilder& g, const char* op, ValueRef grad, ValueRef a,
                                    ValueRef b) {
  const auto& p = g.params<DotParams>();
  std::vector<ValueRef> grads(2);
  if (g.needs_grad(0))
    grads[0] = p.transpose_a ? g.emit(op, {b, grad}, transposed_dot(p.transpose_b, true))
                             : g.emit(op, {grad, b}, transposed_dot(false, !p.transpose_b));
  if (g.needs_grad(1))
    grads[1] = p.transpose_b ? g.emit(op, {grad, a}, transposed_dot(true, p.transpose_a))
                             : g.emit(op, {a, grad}, transposed_dot(!p.transpose_a, false));
  return grads;
}

std::vector<ValueRef> grad_dot(GradBuilder& g) {
  const auto& p = g.params<DotParams>();
  const Shape lhs = g.input_spec(0).shape, rhs = g.input_spec(1).shape;
  const MatrixSizes s = dot_sizes(p, lhs, rhs);
  const ValueRef grad = g.reshape(g.output_grad(0), {s.m, s.n});
  const ValueRef a = g.needs_grad(1)
                         ? g.reshape(g.input(0), p.transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k})
                         : ValueRef{};
  const ValueRef b = g.needs_grad(0)
                         ? g.reshape(g.input(1), p.transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n})
                         : ValueRef{};
  std::vector<ValueRef> grads = product_grads(g, "dot", grad, a, b);
  if (grads[0]) grads[0] = g.reshape(grads[0], lhs);
  if (grads[1]) grads[1] = g.reshape(grads[1], rhs);
  return grads;
}

std::vector<ValueRef> grad_numpy_dot(GradBuilder& g) {
  const Shape lhs = g.input_spec(0).shape, rhs = g.input_spec(1).shape;
  if (rhs.ndim() <= 2) return grad_dot(g);
  const MatrixSizes s = numpy_dot_sizes(lhs, rhs);
  const Shape as_batch{s.batch, s.k, s.n}, swapped{s.k, s.batch, s.n};
  const auto swap = [&](ValueRef v) {
    return g.emit("SwapAxis", {v}, {{"dim1", int64_t{0}}, {"dim2", int64_t{1}}});
  };
  const ValueRef grad = g.reshape(g.output_grad(0), {s.m, s.batch * s.n});
  std::vector<ValueRef> grads(2);
  if (g.needs_grad(0)) {
    const ValueRef b = g.reshape(swap(g.reshape(g.input(1), as_batch)), {s.k, s.batch * s.n});
    grads[0] = g.reshape(g.emit("dot", {grad, b}, transposed_dot(false, true)), lhs);
  }
  if (g.needs_grad(1)) {
    const ValueRef a = g.reshape(g.input(0), {s.m, s.k});
    const ValueRef product = g.emit("dot", {a, grad}, transposed_dot(true, false));
    grads[1] = g.reshape(swap(g.reshape(product, swapped)), rhs);
  }
  return grads;
}

std::vector<ValueRef> grad_batch_dot(GradBuilder& g) {
  return product_grads(g, "batch_dot", g.output_grad(0), g.needs_grad(1) ? g.input(0) : ValueRef{},
                       g.needs_grad(0) ? g.input(1) : ValueRef{});
}

// A vector on the left is treated as a row, a vector on the right as a column; the added axis is
// removed from the result.
Shape as_matrices(const Shape& shape, bool is_lhs) {
  if (shape.ndim() > 1) return shape;
  return is_lhs ? Shape{1, shape[0]} : Shape{shape[0], 1};
}

Specs infer_matmul(const NoParams&, std::span<const TensorSpec> in) {
  check_operands("_matmul", in, 1);
  const Shape lhs = as_matrices(in[0].shape, true), rhs = as_matrices(in[1].shape, false);
  check_inner("_matmul", {}, batch_dot_sizes({}, lhs, rhs), in);
  Shape to = broadcast_shapes("_matmul", Shape(lhs.span().first(lhs.ndim() - 2)),
                              Shape(rhs.span().first(rhs.ndim() - 2)));
  if (in[0].shape.ndim() > 1) to.push_back(lhs[lhs.ndim() - 2]);
  if (in[1].shape.ndim() > 1) to.push_back(rhs.back());
  return {{to, in[0].dtype}};
}

std::vector<ValueRef> grad_matmul(GradBuilder& g) {
  const Shape lhs = as_matrices(g.input_spec(0).shape, true);
  const Shape rhs = as_matrices(g.input_spec(1).shape, false);
  Shape full = broadcast_shapes("_matmul", Shape(lhs.span().first(lhs.ndim() - 2)),
                                Shape(rhs.span().first(rhs.ndim() - 2)));
  full.push_back(lhs[lhs.ndim() - 2]);
  full.push_back(rhs.back());
  const ValueRef grad = g.reshape(g.output_grad(0), full);
  const auto swapped = [&](ValueRef v) {
    return g.emit("SwapAxis", {v}, {{"dim1", int64_t{-1}}, {"dim2", int64_t{-2}}});
  };
  std::vector<ValueRef> grads(2);
  if (g.needs_grad(0))
    grads[0] =
        g.reshape(g.sum_to(g.emit("_matmul", {grad, swapped(g.reshape(g.input(1), rhs))}), lhs),
                  g.input_spec(0).shape);
  if (g.needs_grad(1))
    grads[1] =
        g.reshape(g.sum_to(g.emit("_matmul", {swapped(g.reshape(g.input(0), lhs)), grad}), rhs),
                  g.input_spec(1).shape);
  return grads;
}

}  // namespace

static const Registration dot_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<DotParams>("dot")
          .inputs({"lhs", "rhs"})
          .doc("Sums products over the last axis of lhs and the first axis of rhs: for matrices, "
               "their product.")
          .shapes(
              "lhs: (..., k), rhs: (k, ...) -> lhs without its last, rhs without its first axis")
          .infer(infer_dot)
          .gradient(grad_dot)
          .amp(AmpClass::kLowPrecision));
  ops.add(OpBuilder<DotParams>("_np_dot")
              .inputs({"a", "b"})
              .doc("NumPy's dot: sums products over the last axis of a and the second to last axis "
                   "of b.")
              .shapes("a: (..., k), b: (k,) or (..., k, n) -> (...) or (..., ..., n)")
              .infer(infer_numpy_dot)
              .complete(complete_numpy_dot)
              .gradient(grad_numpy_dot)
              .amp(AmpClass::kLowPrecision));
  ops.add(
      OpBuilder<DotParams>("batch_dot")
          .inputs({"lhs", "rhs"})
          .doc("Matrix products over the last two axes, one for each index of the leading axes.")
          .shapes("lhs: (..., m, k), rhs: (..., k, n) -> (..., m, n)")
          .infer(infer_batch_dot)
          .gradient(grad_batch_dot)
          .amp(AmpClass::kLowPrecision));
  ops.add(OpBuilder<NoParams>("_matmul")
              .inputs({"lhs", "rhs"})
              .doc("NumPy's matmul: matrix products with broadcast leading axes.")
              .infer(infer_matmul)
              .gradient(grad_matmul)
              .amp(AmpClass::kLowPrecision));
});

}  // namespace mxlite
