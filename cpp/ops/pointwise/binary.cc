// Element-wise operators of two arrays, with NumPy's broadcasting (broadcast_*) or without
// (elemwise_*), and add_n.
#include <cctype>
#include <optional>

#include "cpp/ops/numpy_traits.h"
#include "cpp/ops/pointwise/rules.h"
#include "cpp/ops/pointwise/two_gradients.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using Grads = std::vector<ValueRef>;

ValueRef dy(GradBuilder& g) { return g.output_grad(0); }
ValueRef a(GradBuilder& g) { return g.input(0); }
ValueRef b(GradBuilder& g) { return g.input(1); }

constexpr GradFn kAdd = MX_GRADS(dy(g), dy(g));
constexpr GradFn kSub = MX_GRADS(dy(g), g.neg(dy(g)));
constexpr GradFn kMul = MX_GRADS(g.mul(dy(g), b(g)), g.mul(dy(g), a(g)));
constexpr GradFn kDiv = MX_GRADS(g.div(dy(g), b(g)), g.neg(g.div(g.mul(dy(g), g.output(0)), b(g))));
Grads grad_mod(GradBuilder& g) { return remainder_gradients(g, "floor"); }
constexpr GradFn kPower =
    MX_GRADS(g.mul(dy(g), g.mul(b(g), g.emit("broadcast_power", {a(g), g.add_scalar(b(g), -1.0)}))),
             g.mul(dy(g), g.mul(g.output(0), g.emit("log", {a(g)}))));
// As in 1.x, if both sides are equal, lhs gets the gradient.
constexpr GradFn kMaximum = MX_GRADS(g.mul(dy(g), g.emit("broadcast_greater_equal", {a(g), b(g)})),
                                     g.mul(dy(g), g.emit("broadcast_lesser", {a(g), b(g)})));
constexpr GradFn kMinimum = MX_GRADS(g.mul(dy(g), g.emit("broadcast_lesser_equal", {a(g), b(g)})),
                                     g.mul(dy(g), g.emit("broadcast_greater", {a(g), b(g)})));
constexpr GradFn kHypot =
    MX_GRADS(g.mul(dy(g), g.div(a(g), g.output(0))), g.mul(dy(g), g.div(b(g), g.output(0))));

struct BinaryRow {
  const char* name;
  const char* doc;
  GradFn gradient;  // null for a zero gradient
  std::vector<std::string> aliases = {};
  // Argument of OpBuilder::keeps_alias. Broadcasting operators keep all names of 1.x's element-wise
  // operators.
  const char* kept_alias = nullptr;
  // Storage type of the result for sparse arrays in 1.x's operator `kept_alias`.
  std::optional<AliasStorage> alias_storage = std::nullopt;
  bool dense_result = false;
};

// 1.x adds csr and dense arrays without the warning about a dense result.
BinaryRow dense_result(BinaryRow row) {
  row.dense_result = true;
  return row;
}

const BinaryRow kBroadcast[] = {
    dense_result({"broadcast_add", "lhs + rhs.", kAdd, {"broadcast_plus"}}),
    dense_result({"broadcast_sub", "lhs - rhs.", kSub, {"broadcast_minus"}}),
    {"broadcast_mul", "lhs * rhs.", kMul},
    {"broadcast_div", "lhs / rhs; for integers the quotient without fraction, or 0 if rhs is 0.",
     kDiv},
    {"broadcast_mod",
     "Remainder of lhs / rhs with the sign of rhs; 0 if rhs is 0.",
     grad_mod,
     {"_mod", "_Mod"}},
    {"broadcast_power", "lhs to the power rhs.", kPower, {"_power", "_Power"}},
    {"broadcast_maximum",
     "Larger of lhs and rhs; NaN if either is NaN.",
     kMaximum,
     {"_maximum", "_Maximum"},
     "_maximum",
     AliasStorage::kUnion},
    {"broadcast_minimum",
     "Smaller of lhs and rhs; NaN if either is NaN.",
     kMinimum,
     {"_minimum", "_Minimum"},
     "_minimum",
     AliasStorage::kUnion},
    {"broadcast_hypot",
     "sqrt(lhs^2 + rhs^2).",
     kHypot,
     {"_hypot", "_Hypot"},
     "_hypot",
     AliasStorage::kUnion},
    {"broadcast_equal", "1 where lhs equals rhs, else 0.", nullptr, {"_equal", "_Equal"}},
    {"broadcast_not_equal",
     "1 where lhs differs from rhs, else 0.",
     nullptr,
     {"_not_equal", "_Not_Equal"}},
    {"broadcast_greater", "1 where lhs > rhs, else 0.", nullptr, {"_greater", "_Greater"}},
    {"broadcast_greater_equal",
     "1 where lhs >= rhs, else 0.",
     nullptr,
     {"_greater_equal", "_Greater_Equal"}},
    {"broadcast_lesser", "1 where lhs < rhs, else 0.", nullptr, {"_lesser", "_Lesser"}},
    {"broadcast_lesser_equal",
     "1 where lhs <= rhs, else 0.",
     nullptr,
     {"_lesser_equal", "_Lesser_Equal"}},
    {"broadcast_logical_and",
     "1 where both operands differ from 0, else 0.",
     nullptr,
     {"_logical_and", "_Logical_And"}},
    {"broadcast_logical_or",
     "1 where at least one operand differs from 0, else 0.",
     nullptr,
     {"_logical_or", "_Logical_Or"}},
    {"broadcast_logical_xor",
     "1 where exactly one operand is 0, else 0.",
     nullptr,
     {"_logical_xor", "_Logical_Xor"}},
};

const BinaryRow kSameShape[] = {
    {"elemwise_add",
     "lhs + rhs for arrays of the same shape.",
     kAdd,
     {"_plus", "_Plus", "_add", "_grad_add"},
     "_grad_add"},
    {"elemwise_sub", "lhs - rhs for arrays of the same shape.", kSub, {"_minus", "_Minus", "_sub"}},
    {"elemwise_mul", "lhs * rhs for arrays of the same shape.", kMul, {"_mul", "_Mul"}},
    {"elemwise_div",
     "lhs / rhs for arrays of the same shape.",
     kDiv,
     {"_div", "_Div", "_scatter_elemwise_div"},
     "_scatter_elemwise_div",
     AliasStorage::kStored,
     true},
};

Promotion promotion_of(GradFn gradient) {
  if (gradient == kDiv || gradient == kHypot) return Promotion::kFloat;
  return gradient == kSub || gradient == grad_mod ? Promotion::kNumber : Promotion::kArithmetic;
}

OpBuilder<NoParams> two_inputs(const BinaryRow& row) {
  OpBuilder<NoParams> op(row.name);
  op.inputs({"lhs", "rhs"}).doc(row.doc).alias(row.aliases).amp(AmpClass::kWidest);
  op.inplace(0, 0).inplace(1, 0).pointwise().numpy(NumpyTraits{promotion_of(row.gradient)});
  if (row.gradient)
    op.gradient(row.gradient);
  else
    op.zero_gradient();
  StorageTraits storage{.dense_result = row.dense_result};
  if (row.alias_storage) storage.aliases[row.kept_alias] = *row.alias_storage;
  op.storage(std::move(storage));
  return op;
}

Grads add_n_gradient(GradBuilder& g) {
  return Grads(static_cast<size_t>(g.num_inputs()), g.output_grad(0));
}

}  // namespace

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  for (const BinaryRow& row : kBroadcast) {
    OpBuilder<NoParams> op = two_inputs(row);
    // In symbols, 1.x's element-wise operators (_plus) infer one shape for all arrays.
    for (const std::string& alias : row.aliases)
      if (alias[0] == '_' && std::islower(alias[1])) op.keeps_alias(alias, refine_all_alike);
    ops.add(op.infer(broadcast_rule(row.name)));
  }
  for (const BinaryRow& row : kSameShape) {
    OpBuilder<NoParams> op = two_inputs(row);
    op.infer(same_shapes(row.name)).refine(refine_all_alike);
    if (row.kept_alias) op.keeps_alias(row.kept_alias);
    ops.add(op);
  }
  ops.add(OpBuilder<NoParams>("add_n")
              .variadic("args")
              .alias({"ElementWiseSum", "_sum"})
              .doc("Sum of arrays of the same shape and dtype.")
              .shapes("equal shapes -> the same shape")
              .infer([](const NoParams& p, std::span<const TensorSpec> in) {
                MX_CHECK(!in.empty(), "add_n: the number of arrays must be at least 1, got 0");
                return same_shapes("add_n")(p, in);
              })
              .gradient(add_n_gradient)
              .amp(AmpClass::kWidest)
              .inplace(0, 0)
              .elementwise()
              .refine(refine_all_alike)
              .symbol({.count_attribute = "num_args"}));
});

}  // namespace mxlite
