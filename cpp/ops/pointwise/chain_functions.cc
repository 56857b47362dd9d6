#include "cpp/ops/pointwise/chain_functions.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpp/ops/cpu/pointwise/block_io.h"
#include "cpp/ops/nn/activation.h"
#include "cpp/ops/nn/softmax.h"
#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/reduce/reduce.h"

namespace mxlite::pointwise {
namespace {

using All =
    decltype(std::tuple_cat(ChainBinary{}, ChainUnary{}, GeneratedBinary{}, GeneratedUnary{}));

template <class F, class... Functors>
constexpr int place_in(std::tuple<Functors...>) {
  int place = 0;
  (void)((std::is_same_v<F, Functors> || (++place, false)) || ...);
  return place;
}
template <class F>
constexpr int number_of() {
  constexpr int kNumber = place_in<F>(All{});
  static_assert(kNumber < static_cast<int>(std::tuple_size_v<All>));
  return kNumber;
}
constexpr bool is_binary(int number) {
  return number < kChainBinaries ||
         (number >= kChainFunctions &&
          number < kChainFunctions + static_cast<int>(std::tuple_size_v<GeneratedBinary>));
}

constexpr const char* kRepeating[] = {"broadcast_to", "broadcast_axis"};

// The form in which an operator becomes a step of a chain.
struct Meaning {
  enum class Form : uint8_t {
    kArrays,       // all operands are inputs
    kScalarRight,  // ScalarParams
    kScalarLeft,
    kPowerScalar,
    kClip,
    kSmoothL1,
    kHardSigmoid,
    kActivation,
    kActivationBackward,
  };
  int function = 0;
  Form form = Form::kArrays;
};

using Meanings = std::unordered_map<std::string, Meaning>;
using Form = Meaning::Form;

template <class F>
void add_if_named(Meanings& m) {
  if constexpr (requires { F::name; }) {
    constexpr int kNumber = number_of<F>();
    if constexpr (!is_binary(kNumber)) {
      m[F::name] = {kNumber};
    } else {
      const std::string name = F::name;
      if (name[0] == '_')
        m[name] = {kNumber};  // a backward function
      else
        m["broadcast_" + name] = {kNumber};
    }
  }
}

template <class... F>
void add_named(Meanings& m, std::tuple<F...>) {
  (add_if_named<F>(m), ...);
}

template <class... F>
void add_logic_with_scalars(Meanings& m, FunctorList<F...>) {
  ((m[std::string("_") + F::name + "_scalar"] = {number_of<F>(), Form::kScalarRight}), ...);
}

Meanings make_meanings() {
  Meanings m;
  add_named(m, All{});
  m["clip"] = {number_of<Clip>(), Form::kClip};
  m["smooth_l1"] = {number_of<SmoothL1>(), Form::kSmoothL1};
  m["hard_sigmoid"] = {number_of<HardSigmoid>(), Form::kHardSigmoid};
  for (const char* name : {"_copy", "_copyto", "BlockGrad", "make_loss"})
    m[name] = {number_of<Identity>()};
  for (const char* name : kRepeating) m[name] = {number_of<Identity>()};
  m["fix"] = {number_of<Trunc>()};
  m["elemwise_add"] = {number_of<Add>()};
  m["elemwise_sub"] = {number_of<Sub>()};
  m["elemwise_mul"] = {number_of<Mul>()};
  m["elemwise_div"] = {number_of<Div>()};
  m["_plus_scalar"] = {number_of<Add>(), Form::kScalarRight};
  m["_minus_scalar"] = {number_of<Sub>(), Form::kScalarRight};
  m["_rminus_scalar"] = {number_of<Sub>(), Form::kScalarLeft};
  m["_mul_scalar"] = {number_of<Mul>(), Form::kScalarRight};
  m["_div_scalar"] = {number_of<Div>(), Form::kScalarRight};
  m["_rdiv_scalar"] = {number_of<Div>(), Form::kScalarLeft};
  m["_mod_scalar"] = {number_of<Mod>(), Form::kScalarRight};
  m["_rmod_scalar"] = {number_of<Mod>(), Form::kScalarLeft};
  m["_power_scalar"] = {number_of<Power>(), Form::kPowerScalar};
  m["_rpower_scalar"] = {number_of<Power>(), Form::kScalarLeft};
  m["_maximum_scalar"] = {number_of<Maximum>(), Form::kScalarRight};
  m["_minimum_scalar"] = {number_of<Minimum>(), Form::kScalarRight};
  add_logic_with_scalars(m, BinaryLogic{});
  m["Activation"] = {0, Form::kActivation};
  m["_activation_backward"] = {0, Form::kActivationBackward};
  return m;
}

const Meaning* meaning_of(const OpSchema& op) {
  static const auto* const meanings = new Meanings(make_meanings());
  const auto found = meanings->find(op.name);
  return found == meanings->end() ? nullptr : &found->second;
}

int activation_function(ActivationType type) {
  switch (type) {
    case ActivationType::kRelu:
      return number_of<Relu>();
    case ActivationType::kSigmoid:
      return number_of<Sigmoid>();
    case ActivationType::kSoftrelu:
      return number_of<Softrelu>();
    case ActivationType::kSoftsign:
      return number_of<Softsign>();
    case ActivationType::kTanh:
      break;
  }
  return number_of<Tanh>();
}
int activation_slope(ActivationType type) {
  switch (type) {
    case ActivationType::kRelu:
      return number_of<ReluSlope>();
    case ActivationType::kSigmoid:
      return number_of<SigmoidBackward>();
    case ActivationType::kSoftrelu:
      return number_of<SoftreluBackward>();
    case ActivationType::kSoftsign:
      return number_of<SoftsignBackward>();
    case ActivationType::kTanh:
      break;
  }
  return number_of<TanhBackward>();
}

float scalar_of(Number value, DType dtype) {
  float result = 0;
  load_scalar(value, dtype, Compute::kFloat, &result);
  return result;
}

void take_scalar(const Meaning& meaning, const void* params, DType dtype, ChainFunction& f) {
  const Number scalar = static_cast<const ScalarParams*>(params)->scalar;
  if (meaning.form == Form::kPowerScalar && scalar == 2.0) {  // as in the operator's kernels
    f.number = number_of<Mul>();
    f.b = f.a;
    return;
  }
  f.p[0] = scalar_of(scalar, dtype);
  f.b = ChainFunction::kConstant;
  if (meaning.form == Form::kScalarLeft) std::swap(f.a, f.b);
}

template <class F, class... Functors>
std::string name_in(int number, std::tuple<Functors...>) {
  std::string name;
  (void)((number == number_of<Functors>() && (name = F::template of<Functors>(), true)) || ...);
  return name;
}

// The compiler's text of this function's name ends with "... [with F = mxlite::pointwise::Add]",
// from which the class name is extracted.
struct ClassName {
  template <class F>
  static std::string of() {
    const std::string_view text = __PRETTY_FUNCTION__;
    const size_t begin = text.find("mxlite::pointwise::", text.find("F = ")) + 19;
    return std::string(text.substr(begin, text.find_first_of(";]", begin) - begin));
  }
};

}  // namespace

std::optional<ChainFunction> find_chain_function(const PointwiseChain::Operation& step,
                                                 DType dtype) {
  const Meaning* const meaning = meaning_of(*step.op);
  if (!meaning || step.outputs.size() != 1 || step.inputs.empty() || step.inputs.size() > 2)
    return std::nullopt;
  ChainFunction f;
  f.number = meaning->function;
  if (step.inputs.size() == 2) f.b = 1;
  const void* const params = step.params.get();
  switch (meaning->form) {
    case Form::kArrays:
      break;
    case Form::kScalarLeft:
    case Form::kPowerScalar:
    case Form::kScalarRight:
      take_scalar(*meaning, params, dtype, f);
      break;
    case Form::kClip:
      f.p[0] = scalar_of(static_cast<const ClipParams*>(params)->a_min, dtype);
      f.p[1] = scalar_of(static_cast<const ClipParams*>(params)->a_max, dtype);
      break;
    case Form::kSmoothL1: {
      const double sigma = static_cast<const SmoothL1Params*>(params)->scalar;
      f.p[0] = static_cast<float>(sigma * sigma);
      break;
    }
    case Form::kHardSigmoid:
      f.p[0] = static_cast<float>(static_cast<const HardSigmoidParams*>(params)->alpha);
      f.p[1] = static_cast<float>(static_cast<const HardSigmoidParams*>(params)->beta);
      break;
    case Form::kActivation:
      f.number = activation_function(static_cast<const ActivationParams*>(params)->act_type);
      break;
    case Form::kActivationBackward:
      f.number = activation_slope(static_cast<const ActivationParams*>(params)->act_type);
      break;
  }
  f.has_parameters = meaning->form == Form::kClip || meaning->form == Form::kSmoothL1 ||
                     meaning->form == Form::kHardSigmoid;
  if (is_binary(f.number) != (f.b != ChainFunction::kNone)) return std::nullopt;
  return f;
}

bool repeats_input(const OpSchema& op) {
  return std::find(std::begin(kRepeating), std::end(kRepeating), op.name) != std::end(kRepeating);
}

std::string chain_functor(int number) { return name_in<ClassName>(number, All{}); }

std::optional<PointwiseChain::RowEnd> find_row_end(const OpSchema& op, const void* params,
                                                   const TensorSpec& input,
                                                   const TensorSpec& output) {
  using Kind = PointwiseChain::RowEnd::Kind;
  if (output.dtype != input.dtype) return std::nullopt;
  const Shape& shape = input.shape;
  PointwiseChain::RowEnd end;
  AxisMask in_row{};
  if (op.name == "sum" || op.name == "mean") {
    const auto& p = *static_cast<const ReduceParams*>(params);
    end.kind = op.name == "sum" ? Kind::kSum : Kind::kMean;
    in_row = reduced_axes(op.name.c_str(), p.axis, p.exclude, shape.ndim());
  } else if (op.name == "softmax" || op.name == "log_softmax") {
    const auto& p = *static_cast<const SoftmaxParams*>(params);
    if (p.use_length) return std::nullopt;
    end.kind = op.name == "softmax" ? Kind::kSoftmax : Kind::kLogSoftmax;
    end.factor = static_cast<float>(1.0 / p.temperature.value_or(1.0));
    in_row[static_cast<size_t>(normalize_axis(op.name.c_str(), p.axis, shape.ndim()))] = true;
  } else {
    return std::nullopt;
  }
  end.length = 1;
  // Says whether an axis outside of the row was found, counting from the last axis.
  bool left_row = false;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    const bool inside = in_row[static_cast<size_t>(i)];
    if (inside && left_row) return std::nullopt;
    left_row |= !inside;
    if (inside) end.length *= shape[i];
  }
  return end;
}

std::vector<PointwiseChain::IndexTerm> broadcast_terms(const Shape& from, const Shape& to) {
  std::vector<PointwiseChain::IndexTerm> terms;
  int64_t inner = 1, stride = 1;
  for (int i = to.ndim() - 1, k = from.ndim() - 1; i >= 0; --i, --k) {
    const int64_t size = k >= 0 ? from[k] : 1;
    if (size != 1) {
      const bool joins = !terms.empty() && terms.back().divisor * terms.back().extent == inner;
      if (joins)
        terms.back().extent *= size;
      else
        terms.push_back({inner, size, stride});
    }
    inner *= to[i];
    stride *= size;
  }
  return terms;
}

}  // namespace mxlite::pointwise
