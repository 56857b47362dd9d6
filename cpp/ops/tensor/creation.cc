// Creation operators: constants, ranges, identity, and arrays of the shape of another array.
#include "cpp/ops/tensor/creation.h"

#include <cmath>

#include "cpp/ops/pointwise/rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

TensorSpec spec(const Shape& shape, OptionalDType dtype) {
  return {shape, dtype.value_or(DType::kFloat32)};
}

template <class P>
OpBuilder<P> from_nothing(const char* name, const char* doc, bool shape_from_users = false) {
  OpBuilder<P> op(name);
  op.inputs({}).doc(doc).zero_gradient().symbol(
      {.shape_from_users = shape_from_users, .output_type = OutputType::kDtype});
  return op;
}

OpSchema fill(const char* name, const char* doc) {
  return from_nothing<FillParams>(name, doc, /*shape_from_users=*/true)
      .infer([name](const FillParams& p, std::span<const TensorSpec>) -> Specs {
        check_made_shape(name, p.shape);
        return {spec(p.shape, p.dtype)};
      });
}

// Integer dtypes wrap as in MXNet 1.x, but infinity, NaN and numbers beyond 64 bits are errors.
Specs infer_full(const FullParams& p, std::span<const TensorSpec>) {
  check_made_shape("_full", p.shape);
  const Specs result = {spec(p.shape, p.dtype)};
  const DType dtype = result[0].dtype;
  MX_CHECK(integers_hold(p.value) || is_floating(dtype) || dtype == DType::kBool,
           "_full: value must be a number that ", dtype, " can represent, got ",
           static_cast<double>(p.value));
  return result;
}

// Returns the number of values first, first + step, ... before `last`.
int64_t integers_between(__int128 first, __int128 last, __int128 step) {
  if (step > 0 ? first >= last : first <= last) return 0;
  const __int128 distance = step > 0 ? last - first : first - last;
  return static_cast<int64_t>((distance - 1) / (step > 0 ? step : -step) + 1);
}

Specs infer_arange(const ArangeParams& p, std::span<const TensorSpec>) {
  MX_CHECK(!p.infer_range || p.stop,
           "_arange: stop must be given with infer_range=True, except in mx.sym");
  MX_CHECK(p.step != 0, "_arange: step must not be 0, got 0");
  const Number first = p.stop ? p.start : Number(0), last = p.stop.value_or(p.start);
  const double count = std::ceil((last - first) / p.step);
  MX_CHECK(count < 9e18, "_arange: the number of elements must be below 9e18, got start ",
           static_cast<double>(first), ", stop ", static_cast<double>(last), " and step ",
           static_cast<double>(p.step));
  auto values = count > 0 ? static_cast<int64_t>(count) : int64_t{0};
  if (first.is_integer() && last.is_integer() && p.step.is_integer())
    values = integers_between(first.integer(), last.integer(), p.step.integer());
  return {spec(Shape{checked_mul(values, p.repeat)}, p.dtype)};
}

Specs infer_eye(const EyeParams& p, std::span<const TensorSpec>) {
  return {spec(Shape{p.N, p.M ? p.M : p.N}, p.dtype)};
}

Specs infer_linspace(const LinspaceParams& p, std::span<const TensorSpec>) {
  return {spec(Shape{p.num}, p.dtype)};
}

OpBuilder<LikeParams> like(const char* name, const char* doc) {
  OpBuilder<LikeParams> op(name);
  op.doc(doc)
      .zero_gradient()
      .refine(refine_all_alike)
      .infer([](const LikeParams&, std::span<const TensorSpec> in) { return Specs{in[0]}; });
  return op;
}

}  // namespace

static const Registration creation_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(fill("_zeros", "Array of zeros."));
  ops.add(fill("_ones", "Array of ones."));
  ops.add(from_nothing<FullParams>("_full", "Array with one value in all elements.",
                                   /*shape_from_users=*/true)
              .infer(infer_full));
  ops.add(from_nothing<ArangeParams>(
              "_arange", "Evenly spaced numbers: start, start + step, ..., before stop.",
              /*shape_from_users=*/true)
              .infer(infer_arange));
  ops.add(from_nothing<EyeParams>("_eye", "Matrix with ones on one diagonal and zeros elsewhere.")
              .infer(infer_eye));
  ops.add(from_nothing<LinspaceParams>("_linspace", "num evenly spaced numbers from start to stop.")
              .infer(infer_linspace));
  ops.add(like("zeros_like", "Array of zeros with the shape and dtype of data."));
  ops.add(like("ones_like", "Array of ones with the shape and dtype of data."));
});

}  // namespace mxlite
