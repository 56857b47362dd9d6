// A call of an operator, which consists of the operator, its parameters, and the name for users.
// Symbols, traces and compiled graphs share calls. Calls are immutable, and nodes refer to them.
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

// The name of a node, and the line of the user's program that created the node. The line has a form
// such as "train.py:12" and may be empty.
struct NodeName {
  NodeName() = default;
  NodeName(const char* t) : text(t) {}
  NodeName(std::string t, std::string o = {}) : text(std::move(t)), origin(std::move(o)) {}
  std::string text, origin;

  std::string label() const;  // name with the line, for errors: fc1 (train.py:12)
  NodeName with(const std::string& suffix) const { return {text + suffix, origin}; }
};

struct Call {
  const OpSchema* op = nullptr;  // null for a variable, an input, a parameter or a constant
  ParamsRef params;
  NodeName name;
  std::string file_op;  // the operator's name in symbol files; set only in calls of symbols
  Attributes attrs;     // only in symbols: parameters as text, and attributes such as __lr_mult__

  // Returns the host operator, or null if the operator has kernels.
  const HostOp* host() const;
  const SymbolRules& traits() const;
  // Returns the text of an error that the call raised, with the call's name and line.
  std::string error_text(const std::string& error) const;

  // Call the functions below only for calls that have an operator. `count` is the number of inputs.
  int num_inputs() const;                              // -1 means any number
  int num_outputs(int count) const;                    // number of visible outputs
  int total_outputs(int count) const;                  // includes the hidden outputs of MXNet 1.9.1
  std::string argument(int index) const;               // returns "weight"
  std::string input_name(int index, int count) const;  // returns "fc1_weight" or "relu0_input0"
  std::string output_name(int index, int count) const;  // returns "fc1_output", "bn0_mean" or
                                                        // "split0_output1"
  bool writes(int input, bool training) const;
  std::vector<int> written(int count) const;  // inputs that the call writes in training
  std::vector<int> states(int count) const;   // inputs that are auxiliary states

  // Returns whether the operator infers shapes of weights from the shape of its data.
  bool completes() const;
  // Fills unknown dimensions of the inputs.
  void complete(std::span<TensorSpec> inputs) const;
  Specs infer(std::span<const TensorSpec> inputs) const;
  void fill_types(KnownTypes in, KnownTypes out) const;
};
using CallRef = std::shared_ptr<const Call>;

}  // namespace mxlite::graph
