// Prefix sums. The gradient sums in the opposite direction, so both directions are operators.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/reduce/reduce.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

auto rule(const char* op) {
  return [op](const CumsumParams& p, std::span<const TensorSpec> in) -> Specs {
    const DType dtype = p.dtype.value_or(in[0].dtype);
    check_summable(op, dtype);
    if (!p.axis) return {{Shape{count_elements(in[0].shape)}, dtype}};
    normalize_axis(op, *p.axis, in[0].shape.ndim());
    return {{in[0].shape, dtype}};
  };
}

template <bool forward>
std::vector<ValueRef> gradient(GradBuilder& g) {
  const auto& p = g.params<CumsumParams>();
  const TensorSpec& in = g.input_spec(0);
  const ValueRef grad =
      g.emit(forward ? "_cumsum_reverse" : "cumsum", {g.output_grad(0)},
             {{"axis", AttrTraits<std::optional<int64_t>>::to(p.axis)}, {"dtype", in.dtype}});
  return {g.reshape(grad, in.shape)};
}

}  // namespace

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<CumsumParams>("cumsum")
              .inputs({"a"})
              .symbol({.file_name = "_np_cumsum"})
              .doc("Cumulative sum: each element of the output is the sum of the elements up to "
                   "its position.")
              .shapes("any shape -> the same shape; without `axis` (size,)")
              .infer(rule("cumsum"))
              .refine([](const CumsumParams& p, PartialShapes& shapes) {
                if (p.axis) refine_like_first(&p, shapes);
              })
              .gradient(gradient<true>)
              .amp(AmpClass::kFloat32));
  ops.add(OpBuilder<CumsumParams>("_cumsum_reverse")
              .inputs({"a"})
              .doc("Reversed cumulative sum: each element of the output is the sum of the elements "
                   "from its position to the end.")
              .infer(rule("_cumsum_reverse"))
              .gradient(gradient<false>)
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
