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

// How many of first, first + step, ... lie before last.
int64_t integers_between(int64_t first, int64_t last, int64_t step) {
  if (step > 0 ? first >= last : first <= last) return 0;
  const auto distance = step > 0 ? static_cast<uint64_t>(last) - static_cast<uint64_t>(first)
                                 : static_cast<uint64_t>(first) - static_cast<uint64_t>(last);
  const uint64_t length = step > 0 ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  return static_cast<int64_t>((distance - 1) / length + 1);
}

Specs infer_arange(const ArangeParams& p, std::span<const TensorSpec>) {
  MX_CHECK(!p.infer_range || p.stop, "_arange: infer_range=True without stop is not supported");
  MX_CHECK(p.step != 0, "_arange: step 0 given, another value expected");
  MX_CHECK(p.repeat > 0, "_arange: repeat ", p.repeat, " given, at least 1 expected");
  const Number first = p.stop ? p.start : Number(0), last = p.stop.value_or(p.start);
  const double count = std::ceil((last - first) / p.step);
  MX_CHECK(count < 9e18, "_arange: ", static_cast<double>(first), " to ", static_cast<double>(last),
           " by ", static_cast<double>(p.step), " is not finite");
  auto values = count > 0 ? static_cast<int64_t>(count) : int64_t{0};
  if (first.is_integer() && last.is_integer() && p.step.is_integer())
    values = integers_between(first.whole(), last.whole(), p.step.whole());
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
