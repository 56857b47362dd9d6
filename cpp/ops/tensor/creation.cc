// Arrays from nothing: constant, counting, identity, and those that only take another's shape.
#include "cpp/ops/tensor/creation.h"

#include <cmath>

#include "cpp/ops/pointwise/rules.h"

namespace mxlite {
namespace {

TensorSpec checked(const char* op, const Shape& shape, OptionalDType dtype) {
  for (const int64_t dim : shape)
    MX_CHECK_SHAPE(dim >= 0, op, ": shape ", shape, " given, dimensions of at least 0 expected");
  return {shape, dtype.value_or(DType::kFloat32)};
}

template <class P>
OpBuilder<P> from_nothing(const char* name, const char* doc) {
  OpBuilder<P> op(name);
  op.doc(doc).zero_gradient();
  return op;
}

auto fill_rule(const char* op) {
  return [op](const auto& p, std::span<const TensorSpec>) -> Specs {
    return {checked(op, p.shape, p.dtype)};
  };
}

Specs infer_arange(const ArangeParams& p, std::span<const TensorSpec>) {
  MX_CHECK(!p.infer_range || p.stop, "_arange: infer_range=True without stop is not supported");
  MX_CHECK(p.step != 0, "_arange: step 0 given, another value expected");
  MX_CHECK(p.repeat > 0, "_arange: repeat ", p.repeat, " given, at least 1 expected");
  const double first = p.stop ? p.start : 0.0, last = p.stop.value_or(p.start);
  const double count = std::ceil((last - first) / p.step);
  MX_CHECK(count < 9e18, "_arange: ", first, " to ", last, " by ", p.step, " is not finite");
  const auto values = count > 0 ? static_cast<int64_t>(count) : int64_t{0};
  return {{Shape{checked_mul(values, p.repeat)}, p.dtype.value_or(DType::kFloat32)}};
}

Specs infer_eye(const EyeParams& p, std::span<const TensorSpec>) {
  return {checked("_eye", Shape{p.N, p.M ? p.M : p.N}, p.dtype)};
}

Specs infer_linspace(const LinspaceParams& p, std::span<const TensorSpec>) {
  MX_CHECK(p.num >= 0, "_linspace: num ", p.num, " given, at least 0 expected");
  return {checked("_linspace", Shape{p.num}, p.dtype)};
}

OpBuilder<LikeParams> like(const char* name, const char* doc) {
  OpBuilder<LikeParams> op(name);
  op.inputs({"data"}).doc(doc).zero_gradient().infer(
      [](const LikeParams&, std::span<const TensorSpec> in) { return Specs{in[0]}; });
  return op;
}

}  // namespace

void register_creation(OpRegistry& ops) {
  ops.add(from_nothing<FillParams>("_zeros", "Zeros.").infer(fill_rule("_zeros")).build());
  ops.add(from_nothing<FillParams>("_ones", "Ones.").infer(fill_rule("_ones")).build());
  ops.add(from_nothing<FullParams>("_full", "One value.").infer(fill_rule("_full")).build());
  ops.add(from_nothing<ArangeParams>("_arange", "start, start + step, ... below stop.")
              .infer(infer_arange)
              .build());
  ops.add(from_nothing<EyeParams>("_eye", "Ones on a diagonal, zeros elsewhere.")
              .infer(infer_eye)
              .build());
  ops.add(from_nothing<LinspaceParams>("_linspace", "num values at equal distances.")
              .infer(infer_linspace)
              .build());
  ops.add(like("zeros_like", "Zeros of data's shape and dtype.").build());
  ops.add(like("ones_like", "Ones of data's shape and dtype.").build());
}

}  // namespace mxlite
