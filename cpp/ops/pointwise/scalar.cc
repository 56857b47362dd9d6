// Element-wise operators of an array and a number. The number is first converted to the result's
// dtype.
#include <cmath>
#include <string_view>

#include "cpp/ops/numpy_traits.h"
#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/pointwise/rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using Grads = std::vector<ValueRef>;

ValueRef dy(GradBuilder& g) { return g.output_grad(0); }
ValueRef x(GradBuilder& g) { return g.input(0); }
ValueRef y(GradBuilder& g) { return g.output(0); }
double scalar(GradBuilder& g) { return g.params<ScalarParams>().scalar; }
ValueRef with_scalar(GradBuilder& g, const char* op, ValueRef v, double s) {
  return g.emit(op, {v}, {{"scalar", s}});
}

#define MX_GRAD(expression) [](GradBuilder& g) -> Grads { return {expression}; }

// For integers these functions are piecewise constant, so the gradient is zero, as in 1.x.
Grads grad_mod(GradBuilder& g) {
  if (!is_floating(g.input_spec(0).dtype)) return Grads(1);
  return {dy(g)};
}

Grads grad_rmod(GradBuilder& g) {
  if (!is_floating(g.input_spec(0).dtype)) return Grads(1);
  return {g.neg(g.mul(dy(g), g.emit("floor", {with_scalar(g, "_rdiv_scalar", x(g), scalar(g))})))};
}

// The gradient of the constant x^0 is 0 at x = 0, too, where x^-1 is infinite.
Grads grad_power(GradBuilder& g) {
  if (scalar(g) == 0) return {g.zeros(g.input_spec(0))};
  return {g.mul(dy(g),
                g.mul_scalar(with_scalar(g, "_power_scalar", x(g), scalar(g) - 1.0), scalar(g)))};
}

// Defines how an operator on integers treats a number that no integer can represent.
enum class Beyond {
  kRefused,  // arithmetic throws an error
  kNearest,  // maximum and minimum use the dtype's nearest limit, but throw for NaN
  kLogic,    // comparisons and logic have a result for every number
};

// For integers, the gradient is zero if the logarithm of the scalar is infinite or NaN.
Grads grad_rpower(GradBuilder& g) {
  const double factor = std::log(scalar(g));
  if (!is_floating(g.input_spec(0).dtype) && !std::isfinite(factor)) return Grads(1);
  return {g.mul(dy(g), g.mul_scalar(y(g), factor))};
}

struct ScalarRow {
  const char* name;
  const char* doc;
  GradFn gradient;  // null for a zero gradient
  const char* alias;
  // Returns whether the result is 0 where data is 0, given the scalar converted to data's dtype. If
  // null, false.
  bool (*keeps_zeros)(double scalar) = nullptr;
  // 1.x's operator of this name ignores positions that a sparse array does not store.
  const char* stored_alias = nullptr;
  bool keeps_storage = false;  // for every scalar, as in 1.x

  Promotion promotion() const {
    const std::string_view op = name;
    const bool divides = op == "_div_scalar" || op == "_rdiv_scalar" || op == "_hypot_scalar";
    if (!gradient) return Promotion::kNone;
    return divides ? Promotion::kFloat : Promotion::kArithmetic;
  }
  Beyond beyond() const {
    if (!gradient) return Beyond::kLogic;
    const std::string_view op = name;
    return op == "_maximum_scalar" || op == "_minimum_scalar" ? Beyond::kNearest : Beyond::kRefused;
  }
};

constexpr auto kFinite = [](double s) { return std::isfinite(s); };
constexpr auto kDivisor = [](double s) { return s != 0 && !std::isnan(s); };
constexpr auto kZero = [](double s) { return s == 0; };
constexpr auto kNotZero = [](double s) { return s != 0; };
constexpr auto kNotNegative = [](double s) { return s >= 0; };
constexpr auto kPositive = [](double s) { return s > 0; };
constexpr auto kNotPositive = [](double s) { return s <= 0; };
constexpr auto kNegative = [](double s) { return s < 0; };

const ScalarRow kRows[] = {
    {"_plus_scalar", "data + scalar.", MX_GRAD(dy(g)), "_PlusScalar", kZero,
     "_scatter_plus_scalar"},
    {"_minus_scalar", "data - scalar.", MX_GRAD(dy(g)), "_MinusScalar", kZero,
     "_scatter_minus_scalar"},
    {"_rminus_scalar", "scalar - data.", MX_GRAD(g.neg(dy(g))), "_RMinusScalar"},
    {"_mul_scalar", "data * scalar.", MX_GRAD(g.mul_scalar(dy(g), scalar(g))), "_MulScalar",
     kFinite, nullptr, /*keeps_storage=*/true},
    {"_div_scalar", "data / scalar.", MX_GRAD(with_scalar(g, "_div_scalar", dy(g), scalar(g))),
     "_DivScalar", kDivisor, nullptr, /*keeps_storage=*/true},
    {"_rdiv_scalar", "scalar / data.", MX_GRAD(g.neg(g.div(g.mul(dy(g), y(g)), x(g)))),
     "_RDivScalar"},
    {"_mod_scalar", "Remainder of data / scalar.", grad_mod, "_ModScalar"},
    {"_rmod_scalar", "Remainder of scalar / data.", grad_rmod, "_RModScalar"},
    {"_power_scalar", "data to the power scalar.", grad_power, "_PowerScalar"},
    {"_rpower_scalar", "scalar to the power data.", grad_rpower, "_RPowerScalar"},
    {"_maximum_scalar", "max(data, scalar).",
     MX_GRAD(g.mul(dy(g), with_scalar(g, "_greater_equal_scalar", x(g), scalar(g)))),
     "_MaximumScalar"},
    {"_minimum_scalar", "min(data, scalar).",
     MX_GRAD(g.mul(dy(g), with_scalar(g, "_lesser_equal_scalar", x(g), scalar(g)))),
     "_MinimumScalar"},
    {"_hypot_scalar", "sqrt(data^2 + scalar^2).", MX_GRAD(g.mul(dy(g), g.div(x(g), y(g)))),
     "_HypotScalar"},
    {"_equal_scalar", "1 where data equals scalar, else 0.", nullptr, "_EqualScalar", kNotZero},
    {"_not_equal_scalar", "1 where data differs from scalar, else 0.", nullptr, "_NotEqualScalar",
     kZero},
    {"_greater_scalar", "1 where data > scalar, else 0.", nullptr, "_GreaterScalar", kNotNegative},
    {"_greater_equal_scalar", "1 where data >= scalar, else 0.", nullptr, "_GreaterEqualScalar",
     kPositive},
    {"_lesser_scalar", "1 where data < scalar, else 0.", nullptr, "_LesserScalar", kNotPositive},
    {"_lesser_equal_scalar", "1 where data <= scalar, else 0.", nullptr, "_LesserEqualScalar",
     kNegative},
    {"_logical_and_scalar", "1 where both operands differ from 0, else 0.", nullptr,
     "_LogicalAndScalar"},
    {"_logical_or_scalar", "1 where at least one operand differs from 0, else 0.", nullptr,
     "_LogicalOrScalar"},
    {"_logical_xor_scalar", "1 where exactly one operand is 0, else 0.", nullptr,
     "_LogicalXorScalar"},
};

// Returns the scalar converted to the dtype of the operator's result.
double scalar_in(const ScalarParams& p, DType data) {
  if (std::isnan(p.scalar)) return p.scalar;
  return dispatch_dtype(data == DType::kBool ? DType::kInt64 : data,
                        [&]<class T>(T) { return static_cast<double>(p.scalar.as<T>()); });
}

// The result has data's dtype. As in 1.x, booleans count as integers.
auto infer_scalar(const ScalarRow& row) {
  return [op = row.name, beyond = row.beyond()](const ScalarParams& p,
                                                std::span<const TensorSpec> in) -> Specs {
    const DType dtype = in[0].dtype == DType::kBool ? DType::kInt64 : in[0].dtype;
    const bool fits =
        beyond == Beyond::kLogic || is_floating(dtype) ||
        (beyond == Beyond::kNearest ? !std::isnan(p.scalar) : integers_hold(p.scalar));
    MX_CHECK(fits, op, ": scalar must be a number that integers can represent for data of dtype ",
             in[0].dtype, ", got ", static_cast<double>(p.scalar),
             "; convert data with astype('float32')");
    return {{in[0].shape, dtype}};
  };
}

}  // namespace

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  for (const ScalarRow& row : kRows) {
    OpBuilder<ScalarParams> op(row.name);
    op.doc(row.doc).infer(infer_scalar(row)).inplace(0, 0).pointwise();
    op.numpy(NumpyTraits{row.promotion(), /*scalar=*/true});
    std::vector<std::string> aliases = {row.alias};
    StorageTraits storage{.keeps_storage = row.keeps_storage};
    if (row.stored_alias) {
      aliases.emplace_back(row.stored_alias);
      op.keeps_alias(row.stored_alias);
      storage.aliases[row.stored_alias] = AliasStorage::kStored;
    }
    if (row.keeps_zeros)
      op.keeps_zeros([fn = row.keeps_zeros](const ScalarParams& p, DType dtype) {
        return fn(scalar_in(p, dtype));
      });
    op.storage(std::move(storage)).alias(aliases);
    if (row.gradient)
      op.gradient(row.gradient);
    else
      op.zero_gradient();
    ops.add(op);
  }
});

}  // namespace mxlite
