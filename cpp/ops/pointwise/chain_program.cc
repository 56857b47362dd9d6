#include "cpp/ops/pointwise/chain_program.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpp/ops/cpu/pointwise/block_io.h"
#include "cpp/ops/nn/activation.h"
#include "cpp/ops/pointwise/params.h"

namespace mxlite::pointwise {
namespace {

template <class F, class... All>
constexpr int place_in(std::tuple<All...>) {
  int place = 0;
  (void)((std::is_same_v<F, All> || (++place, false)) || ...);
  return place;
}
template <class F>
constexpr int number_of() {
  constexpr int kBinary = place_in<F>(ChainBinary{});
  if constexpr (kBinary < kChainBinaries)
    return kBinary;
  else
    return kChainBinaries + place_in<F>(ChainUnary{});
}

// Says how an operator becomes a step.
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
    if constexpr (kNumber >= kChainBinaries) {
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
  add_named(m, ChainBinary{});
  add_named(m, ChainUnary{});
  m["clip"] = {number_of<Clip>(), Form::kClip};
  m["smooth_l1"] = {number_of<SmoothL1>(), Form::kSmoothL1};
  m["hard_sigmoid"] = {number_of<HardSigmoid>(), Form::kHardSigmoid};
  for (const char* name : {"_copy", "_copyto", "BlockGrad", "make_loss"})
    m[name] = {number_of<Identity>()};
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

class Compiler {
 public:
  explicit Compiler(const PointwiseChain& chain) : chain_(chain) {}

  std::optional<ChainProgram> run() {
    if (!fits()) return std::nullopt;
    for (const TensorSpec& v : chain_.values)
      program_.count = std::max(program_.count, v.shape.size());
    find_uses();
    kept_in_.assign(chain_.values.size(), -1);
    for (size_t s = 0; s < chain_.steps.size(); ++s)
      if (!add(static_cast<int>(s))) return std::nullopt;
    return program_;
  }

 private:
  bool fits() {
    if (chain_.steps.size() > ChainProgram::kMostSteps ||
        chain_.num_inputs > ChainProgram::kMostInputs ||
        chain_.outputs.size() > ChainProgram::kMostOutputs)
      return false;
    for (const TensorSpec& v : chain_.values)
      if (v.dtype != DType::kFloat32 && !is_half(v.dtype)) return false;
    program_.num_inputs = static_cast<int32_t>(chain_.num_inputs);
    for (size_t i = 0; i < chain_.num_inputs; ++i) program_.inputs[i] = chain_.values[i].dtype;
    program_.num_outputs = static_cast<int32_t>(chain_.outputs.size());
    for (size_t i = 0; i < chain_.outputs.size(); ++i)
      program_.outputs[i] = chain_.values[static_cast<size_t>(chain_.outputs[i])].dtype;
    return true;
  }

  void find_uses() {
    made_by_.assign(chain_.values.size(), -1);
    last_use_.assign(chain_.values.size(), -1);
    for (size_t s = 0; s < chain_.steps.size(); ++s) {
      for (int v : chain_.steps[s].outputs) made_by_[static_cast<size_t>(v)] = static_cast<int>(s);
      for (int v : chain_.steps[s].inputs) last_use_[static_cast<size_t>(v)] = static_cast<int>(s);
    }
  }

  bool add(int s) {
    const PointwiseChain::Step& from = chain_.steps[static_cast<size_t>(s)];
    const Meaning* meaning = meaning_of(*from.op);
    if (!meaning || from.outputs.size() != 1 || from.inputs.size() > 2) return false;
    const auto made = static_cast<size_t>(from.outputs[0]);
    ChainStep& step = program_.steps[program_.num_steps++];
    step.function = static_cast<uint8_t>(meaning->function);
    step.dtype = chain_.values[made].dtype;
    step.a = operand(from.inputs[0], s);
    if (from.inputs.size() > 1) step.b = operand(from.inputs[1], s);
    finish(*meaning, from, step);
    const bool two = step.function < kChainBinaries;
    if (two != (step.b.kind != ChainOperand::Kind::kNone)) return false;
    release(from.inputs, s);
    const auto output = std::find(chain_.outputs.begin(), chain_.outputs.end(), from.outputs[0]);
    if (output != chain_.outputs.end())
      step.store = static_cast<int8_t>(output - chain_.outputs.begin());
    return last_use_[made] <= s + 1 || keep(made, step);
  }

  ChainOperand operand(int value, int s) const {
    using Kind = ChainOperand::Kind;
    const auto v = static_cast<size_t>(value);
    if (v < chain_.num_inputs) {
      const bool whole = chain_.values[v].shape.size() == program_.count;
      return {whole ? Kind::kArray : Kind::kElement, static_cast<uint8_t>(v)};
    }
    if (made_by_[v] == s - 1) return {Kind::kLast, 0};
    MX_ASSERT(kept_in_[v] >= 0);
    return {Kind::kKept, static_cast<uint8_t>(kept_in_[v])};
  }

  static void set_scalar(ChainStep& step, int place, Number value) {
    load_scalar(value, step.dtype, Compute::kFloat, &step.p[place]);
  }

  static void finish(const Meaning& meaning, const PointwiseChain::Step& from, ChainStep& step) {
    const void* params = from.params.get();
    constexpr ChainOperand kConstant{ChainOperand::Kind::kConstant, 0};
    switch (meaning.form) {
      case Form::kArrays:
        return;
      case Form::kScalarLeft:
        step.b = step.a;
        step.a = kConstant;
        return set_scalar(step, 0, static_cast<const ScalarParams*>(params)->scalar);
      case Form::kPowerScalar:
        if (static_cast<const ScalarParams*>(params)->scalar == 2.0) {  // as the operator's kernels
          step.function = number_of<Mul>();
          step.b = step.a;
          return;
        }
        [[fallthrough]];
      case Form::kScalarRight:
        step.b = kConstant;
        return set_scalar(step, 0, static_cast<const ScalarParams*>(params)->scalar);
      case Form::kClip:
        set_scalar(step, 0, static_cast<const ClipParams*>(params)->a_min);
        return set_scalar(step, 1, static_cast<const ClipParams*>(params)->a_max);
      case Form::kSmoothL1: {
        const double sigma = static_cast<const SmoothL1Params*>(params)->scalar;
        step.p[0] = static_cast<float>(sigma * sigma);
        return;
      }
      case Form::kHardSigmoid:
        step.p[0] = static_cast<float>(static_cast<const HardSigmoidParams*>(params)->alpha);
        step.p[1] = static_cast<float>(static_cast<const HardSigmoidParams*>(params)->beta);
        return;
      case Form::kActivation:
      case Form::kActivationBackward: {
        const ActivationType type = static_cast<const ActivationParams*>(params)->act_type;
        step.function = static_cast<uint8_t>(
            meaning.form == Form::kActivation ? activation_function(type) : activation_slope(type));
        return;
      }
    }
  }

  // Places of values that no later step reads.
  void release(const std::vector<int>& read, int s) {
    for (int value : read) {
      const auto v = static_cast<size_t>(value);
      if (kept_in_[v] >= 0 && last_use_[v] == s) in_use_[kept_in_[v]] = false;
    }
  }
  bool keep(size_t value, ChainStep& step) {
    for (int k = 0; k < ChainProgram::kMostKept; ++k) {
      if (in_use_[k]) continue;
      in_use_[k] = true;
      kept_in_[value] = k;
      step.keep = static_cast<int8_t>(k);
      program_.num_kept = std::max(program_.num_kept, k + 1);
      return true;
    }
    return false;
  }

  const PointwiseChain& chain_;
  ChainProgram program_;
  std::vector<int> made_by_, last_use_, kept_in_;  // by value
  bool in_use_[ChainProgram::kMostKept] = {};
};

}  // namespace

std::optional<ChainProgram> compile_chain(const PointwiseChain& chain) {
  return Compiler(chain).run();
}

}  // namespace mxlite::pointwise
