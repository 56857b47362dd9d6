#include "cpp/ops/pointwise/chain_program.h"

#include <algorithm>
#include <vector>

#include "cpp/ops/pointwise/chain_functions.h"

namespace mxlite::pointwise {
namespace {

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
    if (!chain_.is_flat() || chain_.steps.size() > ChainProgram::kMostSteps ||
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
    const PointwiseChain::Operation& from = chain_.steps[static_cast<size_t>(s)];
    const auto made = static_cast<size_t>(from.outputs[0]);
    const auto function = find_chain_function(from, chain_.values[made].dtype);
    if (!function || function->number >= kChainFunctions) return false;
    ChainStep& step = program_.steps[program_.num_steps++];
    step.function = static_cast<uint8_t>(function->number);
    step.dtype = chain_.values[made].dtype;
    std::copy_n(function->p, 2, step.p);
    step.a = operand(from, function->a, s);
    if (function->b != ChainFunction::kNone) step.b = operand(from, function->b, s);
    release(from.inputs, s);
    const auto output = std::find(chain_.outputs.begin(), chain_.outputs.end(), from.outputs[0]);
    if (output != chain_.outputs.end())
      step.store = static_cast<int8_t>(output - chain_.outputs.begin());
    return last_use_[made] <= s + 1 || keep(made, step);
  }

  // Returns the operand for input `which` of the step, or for its constant.
  ChainOperand operand(const PointwiseChain::Operation& from, int which, int s) const {
    using Kind = ChainOperand::Kind;
    if (which == ChainFunction::kConstant) return {Kind::kConstant, 0};
    const auto v = static_cast<size_t>(from.inputs[static_cast<size_t>(which)]);
    if (v < chain_.num_inputs) {
      const bool whole = chain_.values[v].shape.size() == program_.count;
      return {whole ? Kind::kArray : Kind::kElement, static_cast<uint8_t>(v)};
    }
    if (made_by_[v] == s - 1) return {Kind::kLast, 0};
    MX_ASSERT(kept_in_[v] >= 0);
    return {Kind::kKept, static_cast<uint8_t>(kept_in_[v])};
  }

  // Frees the slots of values that no later step reads.
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
