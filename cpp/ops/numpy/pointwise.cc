// Element-wise operators that only numpy mode has: bools as results of comparisons, functions of
// integers and of bits.
#include <string>

#include "cpp/ops/numpy_traits.h"
#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/pointwise/rules.h"
#include "cpp/ops/pointwise/two_gradients.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using Grads = std::vector<ValueRef>;

ValueRef dy(GradBuilder& g) { return g.output_grad(0); }
ValueRef y(GradBuilder& g) { return g.output(0); }
ValueRef a(GradBuilder& g) { return g.input(0); }
ValueRef b(GradBuilder& g) { return g.input(1); }

ValueRef sum_of_squares(GradBuilder& g) {
  return g.add(g.emit("square", {a(g)}), g.emit("square", {b(g)}));
}
ValueRef share_of_sum(GradBuilder& g, ValueRef part) {
  return g.mul(dy(g), g.emit("exp", {g.sub(part, y(g))}));
}
// The gradient of fmax and fmin: `order` compares a with b where a is the result.
Grads picked_gradient(GradBuilder& g, const char* order) {
  const ValueRef is_a =
      g.emit("broadcast_maximum", {g.emit(order, {a(g), b(g)}), g.emit("_contrib_isnan", {b(g)})});
  const ValueRef of_a = g.mul(dy(g), is_a);
  return {g.sum_to(of_a, g.input_spec(0).shape),
          g.sum_to(g.sub(dy(g), of_a), g.input_spec(1).shape)};
}
Grads fmax_gradient(GradBuilder& g) { return picked_gradient(g, "broadcast_greater_equal"); }
Grads fmin_gradient(GradBuilder& g) { return picked_gradient(g, "broadcast_lesser_equal"); }
Grads mod_gradient(GradBuilder& g) { return remainder_gradients(g, "floor"); }
Grads fmod_gradient(GradBuilder& g) { return remainder_gradients(g, "trunc"); }

constexpr GradFn kArctan2 = MX_GRADS(g.mul(dy(g), g.div(b(g), sum_of_squares(g))),
                                     g.neg(g.mul(dy(g), g.div(a(g), sum_of_squares(g)))));
constexpr GradFn kCopysign =
    MX_GRADS(g.mul(dy(g), g.emit("sign", {g.mul(a(g), y(g))})), g.zeros(g.input_spec(1)));
constexpr GradFn kLogaddexp = MX_GRADS(share_of_sum(g, a(g)), share_of_sum(g, b(g)));

enum class Domain : uint8_t { kAll, kNumbers, kFloats, kIntegers, kBits };

struct Row {
  const char* name;
  const char* doc;
  Domain domain;
  GradFn gradient = nullptr;  // null for a zero gradient
};

constexpr Row kBinary[] = {
    {"_npi_floor_divide", "Quotient a / b rounded down; 0 for an integer divided by 0.",
     Domain::kNumbers},
    {"_npi_mod",
     "Remainder of a / b with the sign of b; if b is 0, NaN for floats and 0 for integers.",
     Domain::kNumbers, mod_gradient},
    {"_npi_fmod", "Remainder of a / b with the sign of a.", Domain::kNumbers, fmod_gradient},
    {"_npi_fmax", "Larger of a and b; if one of them is NaN, the other one.", Domain::kAll,
     fmax_gradient},
    {"_npi_fmin", "Smaller of a and b; if one of them is NaN, the other one.", Domain::kAll,
     fmin_gradient},
    {"_npi_gcd", "Greatest common divisor.", Domain::kIntegers},
    {"_npi_lcm", "Least common multiple.", Domain::kIntegers},
    {"_npi_bitwise_and", "Bits that are set in a and b.", Domain::kBits},
    {"_npi_bitwise_or", "Bits that are set in a or b.", Domain::kBits},
    {"_npi_bitwise_xor", "Bits that are set in only one of a and b.", Domain::kBits},
    {"_npi_left_shift", "Bits of a shifted left by b.", Domain::kIntegers},
    {"_npi_right_shift", "Bits of a shifted right by b.", Domain::kIntegers},
    {"_npi_arctan2", "Angle of the point with x = b and y = a, in radians.", Domain::kFloats,
     kArctan2},
    {"_npi_copysign", "a with the sign of b.", Domain::kFloats, kCopysign},
    {"_npi_logaddexp", "log(exp(a) + exp(b)).", Domain::kFloats, kLogaddexp},
    {"_npi_nextafter", "The next float after a in the direction of b.", Domain::kFloats},
};

struct LogicRow {
  const char* name;
  const char* doc;
};
constexpr LogicRow kComparisons[] = {
    {"_npi_equal", "Whether a == b."},
    {"_npi_not_equal", "Whether a != b."},
    {"_npi_greater", "Whether a > b."},
    {"_npi_greater_equal", "Whether a >= b."},
    {"_npi_less", "Whether a < b."},
    {"_npi_less_equal", "Whether a <= b."},
    {"_npi_logical_and", "Whether both a and b differ from 0."},
    {"_npi_logical_or", "Whether a or b is not 0."},
    {"_npi_logical_xor", "Whether exactly one of a and b is 0."},
};
constexpr LogicRow kPredicates[] = {
    {"_npi_isnan", "Whether data is NaN."},
    {"_npi_isinf", "Whether data is infinite."},
    {"_npi_isfinite", "Whether data is neither NaN nor infinite."},
    {"_npi_logical_not", "Whether data is 0."},
    {"_npi_signbit", "Whether the sign bit of data is set, which holds also for -0."},
};

void check_domain(const char* op, Domain domain, DType dtype) {
  const bool fits = domain == Domain::kAll        ? true
                    : domain == Domain::kNumbers  ? dtype != DType::kBool
                    : domain == Domain::kFloats   ? is_floating(dtype)
                    : domain == Domain::kIntegers ? !is_floating(dtype) && dtype != DType::kBool
                                                  : !is_floating(dtype);
  constexpr const char* kNames[] = {"numbers or bools", "numbers", "floats", "integers",
                                    "integers or bools"};
  MX_CHECK_DTYPE(fits, op, ": operands must be ", kNames[static_cast<int>(domain)], ", got dtype ",
                 dtype);
}

template <class P>
OpBuilder<P> bools(const LogicRow& row, std::vector<std::string> inputs) {
  OpBuilder<P> op(row.name);
  op.inputs(std::move(inputs)).doc(row.doc).zero_gradient().elementwise();
  return op;
}

auto rule_of(const Row& row) {
  return [row](const NoParams& p, std::span<const TensorSpec> in) -> Specs {
    check_domain(row.name, row.domain, in[0].dtype);
    return broadcast_rule(row.name)(p, in);
  };
}

template <class P>
auto bool_like_input() {
  return [](const P&, std::span<const TensorSpec> in) -> Specs {
    return {{in[0].shape, DType::kBool}};
  };
}

}  // namespace

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  for (const Row& row : kBinary) {
    OpBuilder<NoParams> op(row.name);
    op.inputs({"a", "b"}).doc(row.doc).infer(rule_of(row)).inplace(0, 0).inplace(1, 0);
    op.elementwise().amp(AmpClass::kWidest);
    const bool holds_bools = row.domain == Domain::kBits || row.domain == Domain::kAll;
    op.numpy(NumpyTraits{row.domain == Domain::kFloats ? Promotion::kFloat
                         : holds_bools                 ? Promotion::kArithmetic
                                                       : Promotion::kNumber});
    ops.add(row.gradient ? op.gradient(row.gradient) : op.zero_gradient());
  }
  for (const LogicRow& row : kComparisons) {
    ops.add(bools<NoParams>(row, {"a", "b"})
                .amp(AmpClass::kWidest)
                .numpy(NumpyTraits{Promotion::kArithmetic})
                .infer([name = row.name](const NoParams& p, std::span<const TensorSpec> in) {
                  Specs out = broadcast_rule(name)(p, in);
                  out[0].dtype = DType::kBool;
                  return out;
                }));
    const std::string name = std::string(row.name) + "_scalar";
    ops.add(bools<ScalarParams>({name.c_str(), row.doc}, {"data"})
                .infer(bool_like_input<ScalarParams>()));
  }
  for (const LogicRow& row : kPredicates)
    ops.add(bools<NoParams>(row, {"data"}).infer(bool_like_input<NoParams>()));
  ops.add(OpBuilder<NoParams>("_npi_bitwise_not")
              .doc("Inverts all bits; for bools, logical not.")
              .infer([](const NoParams&, std::span<const TensorSpec> in) -> Specs {
                check_domain("_npi_bitwise_not", Domain::kBits, in[0].dtype);
                return {in[0]};
              })
              .zero_gradient()
              .inplace(0, 0)
              .elementwise());
  ops.add(OpBuilder<NoParams>("_npi_rint")
              .doc("Rounds to the nearest integer; halves are rounded to even integers.")
              .infer(like_input())
              .zero_gradient()
              .inplace(0, 0)
              .elementwise());
});

}  // namespace mxlite
