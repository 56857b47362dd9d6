// Sums, products, means, extremes and norms over axes.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/numpy/promotion.h"
#include "cpp/ops/numpy_traits.h"
#include "cpp/ops/reduce/reduce.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using Grads = std::vector<ValueRef>;

template <class P>
AxisMask mask_of(GradBuilder& g) {
  return reduced_axes("reduce", g.params<P>(), g.input_spec(0).shape.ndim());
}
template <class P>
Shape kept(GradBuilder& g) {
  return kept_shape(g.input_spec(0).shape, mask_of<P>(g));
}

// Returns the output's gradient in data's dtype, with reduced axes restored as axes of length 1.
template <class P>
ValueRef dy(GradBuilder& g) {
  return g.cast(g.reshape(g.output_grad(0), kept<P>(g)), g.input_spec(0).dtype);
}

ValueRef spread(GradBuilder& g, ValueRef v) {
  const TensorSpec& in = g.input_spec(0);
  if (in.shape.size() == 0) return g.zeros(in);
  if (g.spec(v).shape == in.shape) return v;
  return g.emit("broadcast_to", {v}, {{"shape", in.shape}});
}

template <class P>
Grads sum_gradient(GradBuilder& g) {
  return {spread(g, dy<P>(g))};
}

template <class P>
Grads mean_gradient(GradBuilder& g) {
  const int64_t n = std::max<int64_t>(reduced_size(g.input_spec(0).shape, mask_of<P>(g)), 1);
  return {spread(g, g.mul_scalar(dy<P>(g), 1.0 / static_cast<double>(n)))};
}

Grads nansum_gradient(GradBuilder& g) {
  const ValueRef x = g.input(0);
  return {g.mul(dy<ReduceParams>(g), g.emit("broadcast_equal", {x, x}))};
}

// Returns, for each element, the product of the elements before it along the last axis (1 for the
// first), by doubling.
ValueRef products_before(GradBuilder& g, ValueRef x) {
  const Shape shape = g.spec(x).shape;
  const int64_t rows = shape[0], n = shape[1];
  const ValueRef ones = g.emit("ones_like", {x});
  // Prepends `by` ones and removes as many elements at the end.
  const auto shifted = [&](ValueRef v, int64_t by) {
    const ValueRef front =
        g.emit("slice", {ones}, {{"begin", Shape{0, 0}}, {"end", Shape{rows, by}}});
    const ValueRef rest =
        g.emit("slice", {v}, {{"begin", Shape{0, 0}}, {"end", Shape{rows, n - by}}});
    return g.emit("Concat", {front, rest}, {{"dim", int64_t{1}}});
  };
  ValueRef result = shifted(x, 1);
  for (int64_t by = 1; by < n; by *= 2) result = g.mul(result, shifted(result, by));
  return result;
}

// Used by composite gradients, because product_of_others treats the positions of zeros as constant.
ValueRef product_of_others_exactly(GradBuilder& g, ValueRef x, const AxisMask& mask) {
  const Shape shape = g.input_spec(0).shape;
  if (shape.size() == 0) return x;
  Shape order, back = shape, turned;
  int64_t rows = 1, n = 1;
  for (const bool reduced : {false, true})
    for (int i = 0; i < shape.ndim(); ++i)
      if (mask[static_cast<size_t>(i)] == reduced) {
        back[i] = order.ndim();
        order.push_back(i);
        turned.push_back(shape[i]);
        (reduced ? n : rows) *= shape[i];
      }
  const auto turn = [&](ValueRef v, const Shape& axes) {
    return shape.ndim() > 1 ? g.emit("transpose", {v}, {{"axes", axes}}) : v;
  };
  const auto flip = [&](ValueRef v) { return g.emit("reverse", {v}, {{"axis", Shape{1}}}); };
  const ValueRef flat = g.reshape(turn(x, order), Shape{rows, n});
  const ValueRef before = products_before(g, flat);
  const ValueRef after = flip(products_before(g, flip(flat)));
  return turn(g.reshape(g.mul(before, after), turned), back);
}

// Returns the product of the other elements, which is exact if elements are zero.
ValueRef product_of_others(GradBuilder& g, ValueRef x, const AxisMask& mask) {
  Shape axes;
  for (int i = 0; i < g.input_spec(0).shape.ndim(); ++i)
    if (mask[static_cast<size_t>(i)]) axes.push_back(i);
  if (axes.ndim() == 0) return g.emit("ones_like", {x});
  const auto over_axes = [&](const char* op, ValueRef v) {
    return g.emit(op, {v}, {{"axis", axes}, {"keepdims", true}});
  };
  const ValueRef is_zero = g.emit("_equal_scalar", {x}, {{"scalar", 0.0}});
  const ValueRef filled = g.add(x, is_zero);
  const ValueRef zeros = over_axes("sum", is_zero);
  const ValueRef none = g.emit("_equal_scalar", {zeros}, {{"scalar", 0.0}});
  const ValueRef one = g.emit("_equal_scalar", {zeros}, {{"scalar", 1.0}});
  const ValueRef share = g.add(g.div(none, filled), g.mul(one, is_zero));
  return g.mul(over_axes("prod", filled), share);
}

using OthersFn = ValueRef (*)(GradBuilder&, ValueRef, const AxisMask&);

template <class P, OthersFn others>
Grads prod_gradient(GradBuilder& g) {
  return {g.mul(dy<P>(g), others(g, g.input(0), mask_of<P>(g)))};
}

template <OthersFn others>
Grads nanprod_gradient(GradBuilder& g) {
  const ValueRef x = g.input(0);
  const ValueRef is_number = g.emit("broadcast_equal", {x, x});
  const ValueRef numbers = g.emit("where", {is_number, x, g.emit("ones_like", {x})});
  const ValueRef grad = g.mul(dy<ReduceParams>(g), others(g, numbers, mask_of<ReduceParams>(g)));
  return {g.emit("where", {is_number, grad, g.emit("zeros_like", {grad})})};
}

// As in 1.x, every element equal to the extreme gets the whole gradient.
template <class P>
Grads extreme_gradient(GradBuilder& g) {
  const ValueRef y = g.reshape(g.output(0), kept<P>(g));
  return {g.mul(dy<P>(g), g.emit("broadcast_equal", {g.input(0), y}))};
}

Specs infer_norm(const NormParams& p, std::span<const TensorSpec> in) {
  check_summable("norm", in[0].dtype);
  const AxisMask reduced = reduced_axes("norm", p.axis, false, in[0].shape.ndim());
  return {{result_shape(in[0].shape, reduced, p.keepdims), p.out_dtype.value_or(in[0].dtype)}};
}

// At 0 the gradient is 0 (1.x gives NaN).
Grads norm_gradient(GradBuilder& g) {
  const auto& p = g.params<NormParams>();
  const TensorSpec& in = g.input_spec(0);
  const Shape kept = kept_shape(in.shape, reduced_axes("norm", p.axis, false, in.shape.ndim()));
  const auto as_input = [&](ValueRef v) { return g.cast(g.reshape(v, kept), in.dtype); };
  const ValueRef x = g.input(0), dy = as_input(g.output_grad(0));
  if (p.ord == 1) return {g.mul(dy, g.emit("sign", {x}))};
  const ValueRef length = as_input(g.output(0));
  const ValueRef is_zero = g.emit("_equal_scalar", {length}, {{"scalar", 0.0}});
  return {g.mul(dy, g.div(x, g.add(length, is_zero)))};
}

constexpr const char* kReduced =
    "any shape -> data without the axes `axis`, or with size 1 there (`keepdims=True`)";

void check_not_empty(const char* op, const Shape& shape, const AxisMask& reduced,
                     const Shape& out) {
  MX_CHECK_SHAPE(reduced_size(shape, reduced) != 0 || count_elements(out) <= 0, op,
                 ": data must have at least 1 element along the reduced axes, got shape ", shape);
}

OpBuilder<ReduceParams> reduction(const char* name, const char* doc, bool needs_values,
                                  GradFn gradient) {
  OpBuilder<ReduceParams> op(name);
  op.doc(doc).gradient(gradient).amp(AmpClass::kFloat32);
  op.shapes(kReduced);
  op.infer([name, needs_values](const ReduceParams& p, std::span<const TensorSpec> in) -> Specs {
    // The largest boolean is a boolean, but a sum, mean or product of booleans is not.
    if (!needs_values) check_summable(name, in[0].dtype);
    const Shape& shape = in[0].shape;
    const AxisMask reduced = reduced_axes(name, p, shape.ndim());
    const Shape out = result_shape(shape, reduced, p.keepdims);
    if (needs_values) check_not_empty(name, shape, reduced, out);
    return {{out, in[0].dtype}};
  });
  return op;
}

// Integers and bools are summed in 64 bits, as in NumPy.
DType dtype_of_sum(DType data) {
  if (is_floating(data)) return data;
  return is_unsigned(data) ? DType::kUInt64 : DType::kInt64;
}

enum class NumpyResult : uint8_t { kSum, kMean, kExtreme };

OpBuilder<NumpyReduceParams> numpy_reduction(const char* name, const char* doc, NumpyResult result,
                                             GradFn gradient) {
  OpBuilder<NumpyReduceParams> op(name);
  op.inputs({"a"}).doc(doc).gradient(gradient).shapes(kReduced);
  op.infer([name, result](const NumpyReduceParams& p, std::span<const TensorSpec> in) -> Specs {
    const auto& [shape, dtype] = in[0];
    const AxisMask reduced = reduced_axes(name, p, shape.ndim());
    const Shape out = p.keepdims ? kept_shape(shape, reduced) : shape_without(shape, reduced);
    if (result == NumpyResult::kExtreme) {
      // Unlike mx.nd, NumPy refuses to reduce an axis of size 0 even if the result is empty.
      check_not_empty(name, shape, reduced, Shape{1});
      return {{out, dtype}};
    }
    MX_CHECK_DTYPE(result == NumpyResult::kSum || is_floating(dtype), name,
                   ": data must have a floating dtype, got ", dtype);
    return {{out, p.dtype.value_or(dtype_of_sum(dtype))}};
  });
  if (result != NumpyResult::kExtreme) op.amp(AmpClass::kFloat32);
  if (result == NumpyResult::kMean) op.numpy(NumpyTraits{Promotion::kFloat});
  return op;
}

}  // namespace

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(reduction("sum", "Sum of the elements along axes.", false, sum_gradient<ReduceParams>)
              .alias({"sum_axis"}));
  ops.add(
      reduction("mean", "Mean of the elements along axes.", false, mean_gradient<ReduceParams>));
  ops.add(reduction("nansum", "Sum of the elements along axes; NaN counts as 0.", false,
                    nansum_gradient));
  ops.add(reduction("prod", "Product of the elements along axes.", false,
                    prod_gradient<ReduceParams, product_of_others>)
              .composite_gradient(prod_gradient<ReduceParams, product_of_others_exactly>));
  ops.add(reduction("nanprod", "Product of the elements along axes; NaN counts as 1.", false,
                    nanprod_gradient<product_of_others>)
              .composite_gradient(nanprod_gradient<product_of_others_exactly>));
  ops.add(reduction("max", "Largest value along axes; NaN if any value is NaN.", true,
                    extreme_gradient<ReduceParams>)
              .alias({"max_axis"})
              .amp(AmpClass::kNeutral));
  ops.add(reduction("min", "Smallest value along axes; NaN if any value is NaN.", true,
                    extreme_gradient<ReduceParams>)
              .alias({"min_axis"})
              .amp(AmpClass::kNeutral));
  using P = NumpyReduceParams;
  using enum NumpyResult;
  ops.add(numpy_reduction("_np_sum", "Sum of the elements along axes.", kSum, sum_gradient<P>));
  ops.add(numpy_reduction("_np_prod", "Product of the elements along axes.", kSum,
                          prod_gradient<P, product_of_others>)
              .composite_gradient(prod_gradient<P, product_of_others_exactly>));
  ops.add(
      numpy_reduction("_npi_mean", "Mean of the elements along axes.", kMean, mean_gradient<P>));
  ops.add(numpy_reduction("_np_max", "Largest value along axes; NaN if any value is NaN.", kExtreme,
                          extreme_gradient<P>));
  ops.add(numpy_reduction("_np_min", "Smallest value along axes; NaN if any value is NaN.",
                          kExtreme, extreme_gradient<P>));
  ops.add(OpBuilder<NormParams>("norm")
              .doc("Vector norm of the elements along the given axes.")
              .shapes(kReduced)
              .infer(infer_norm)
              .gradient(norm_gradient)
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
