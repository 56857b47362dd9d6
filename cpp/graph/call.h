// A call of an operator, shared by symbols, traces and compiled graphs: the operator, its
// parameters, and the name for users. Calls are immutable; nodes refer to them.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpp/ops/op_schema.h"

namespace mxlite::graph {

class HostOp;

using Attributes = std::map<std::string, std::string>;

// The name of a node, and the user's line that made it ("train.py:12"; may be empty).
struct NodeName {
  NodeName() = default;
  NodeName(const char* t) : text(t) {}
  NodeName(std::string t, std::string o = {}) : text(std::move(t)), origin(std::move(o)) {}
  std::string text, origin;

  std::string label() const;  // with the line, for errors: fc1 (train.py:12)
  NodeName with(const std::string& suffix) const { return {text + suffix, origin}; }
};

struct Call {
  const OpSchema* op = nullptr;  // null: a variable, an input, a parameter or a constant
  ParamsRef params;
  NodeName name;
  std::string file_op;  // the operator's name in symbol files; set only in calls of symbols
  Attributes attrs;     // only in symbols: parameters as text, attributes such as __lr_mult__

  // Returns null for operators with kernels.
  const HostOp* host() const;
  const SymbolRules& traits() const;
  // Returns the text of an error that the call raised, with the call's name and line.
  std::string error_text(const std::string& error) const;

  // The functions below are for calls with an operator; `count` is the number of inputs.
  int num_inputs() const;                               // -1: any number
  int num_outputs(int count) const;                     // visible ones
  int total_outputs(int count) const;                   // in 1.9.1, hidden ones too
  std::string argument(int index) const;                // weight
  std::string input_name(int index, int count) const;   // fc1_weight, relu0_input0
  std::string output_name(int index, int count) const;  // fc1_output, bn0_mean, split0_output1
  bool writes(int input, bool training) const;
  std::vector<int> written(int count) const;  // inputs that the call writes in training
  std::vector<int> states(int count) const;   // inputs that are auxiliary states

  // Returns whether the operator infers the shapes of weights from its data.
  bool completes() const;
  // Fills unknown dimensions of the inputs.
  void complete(std::span<TensorSpec> inputs) const;
  Specs infer(std::span<const TensorSpec> inputs) const;
  void fill_types(KnownTypes in, KnownTypes out) const;
};
using CallRef = std::shared_ptr<const Call>;

}  // namespace mxlite::graph
