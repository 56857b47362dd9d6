// The operators of symbols that call subgraphs: _foreach, _while_loop and _cond.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "cpp/graph/host_op.h"
#include "cpp/symbol/subgraph.h"

namespace mxlite::symbol {

class ControlFlow : public graph::HostOp {
 public:
  ControlFlow(std::vector<Subgraph> graphs, size_t num_inputs, size_t num_outputs);
  const std::vector<Subgraph>& graphs() const { return graphs_; }

  // The operator's subgraphs, and the attributes that files have in addition to those of its node.
  struct Saved {
    Attributes attrs;
    std::vector<NodeOutputs> graphs;
  };
  virtual Saved saved(const NodeOutputs& inputs) const = 0;

  int num_inputs() const override { return num_inputs_; }
  int num_outputs(int) const override { return num_outputs_; }
  bool writes(int input) const override;
  std::vector<int> written(int num_inputs) const override;
  bool fill_types(KnownTypes in, KnownTypes out) const override;
  void complete(std::span<TensorSpec> inputs) const override;

 protected:
  // `inner` converts the spec of an operator's input to the spec that subgraphs see. `outer`
  // converts a shape back. The last argument of `outer` is the known part of the input's shape.
  virtual TensorSpec inner(int, const TensorSpec& spec) const { return spec; }
  virtual Shape outer(int, const Shape& shape, const Shape&) const { return shape; }
  // Returns the specs of a subgraph's outputs.
  Specs infer_outputs_of(const Subgraph& graph, std::span<const TensorSpec> inputs) const;
  size_t output_count() const { return static_cast<size_t>(num_outputs_); }

 private:
  SubgraphSpecs infer_subgraph(const Subgraph& graph, std::span<const TensorSpec> inputs) const;

  const std::vector<Subgraph> graphs_;
  const int num_inputs_, num_outputs_;
};

// Calls a subgraph on each slice of the first inputs (the data). The remaining inputs are states
// and imports.
class Foreach final : public ControlFlow {
 public:
  Foreach(Subgraph body, size_t num_data, size_t num_states);
  Specs infer(std::span<const TensorSpec> inputs) const override;
  NDArrays call(std::span<const NDArrayRef> inputs) const override;
  Saved saved(const NodeOutputs& inputs) const override;

 protected:
  TensorSpec inner(int input, const TensorSpec& spec) const override;
  Shape outer(int input, const Shape& shape, const Shape& given) const override;

 private:
  const Subgraph& body() const { return graphs()[0]; }
  const size_t num_data_, num_states_;
};

// Calls the body while the condition holds. The first variables of both subgraphs are the loop
// variables.
class WhileLoop final : public ControlFlow {
 public:
  WhileLoop(Subgraph condition, Subgraph body, size_t num_inputs, size_t num_variables,
            int64_t max_iterations);
  Specs infer(std::span<const TensorSpec> inputs) const override;
  NDArrays call(std::span<const NDArrayRef> inputs) const override;
  Saved saved(const NodeOutputs& inputs) const override;

 private:
  const Subgraph& condition() const { return graphs()[0]; }
  const Subgraph& body() const { return graphs()[1]; }
  size_t num_step_outputs() const { return output_count() - num_variables_; }
  const size_t num_variables_;
  const int64_t max_iterations_;
};

// Calls one of two subgraphs, which have only imports. The first input is the predicate.
class Branch final : public ControlFlow {
 public:
  Branch(Subgraph then, Subgraph otherwise, size_t num_inputs);
  Specs infer(std::span<const TensorSpec> inputs) const override;
  NDArrays call(std::span<const NDArrayRef> inputs) const override;
  Saved saved(const NodeOutputs& inputs) const override;

 private:
  const Subgraph& then() const { return graphs()[0]; }
  const Subgraph& otherwise() const { return graphs()[1]; }
};

// Returns the operator of a call, or null if the operator is not a control-flow operator.
const ControlFlow* control_flow(const Call& call);

// Collects the inputs of a new node. As in 1.x, each value becomes one input, and the inputs are in
// the order of first use.
class NodeInputs {
 public:
  // Returns the index of the input that holds a value of the surrounding graph.
  int import(const NodeOutput& entry) { return place({entry.node.get(), entry.output}, entry); }
  // Like import, but for a loop variable or a predicate. These always get a separate input.
  int variable(int number, const NodeOutput& entry) { return place({nullptr, number}, entry); }

  Subgraph give(CutSubgraph graph, const NodeOutputs& variables) {
    std::vector<int> order = used_variables(graph.heads, graph.variables);
    std::vector<int> inputs(graph.variables.size(), -1);
    const auto give_input = [&](size_t i) {
      if (inputs[i] >= 0) return;
      inputs[i] = i < variables.size() ? variable(static_cast<int>(i), variables[i])
                                       : import(graph.imports[i - variables.size()]);
    };
    for (const int i : order) give_input(static_cast<size_t>(i));
    for (size_t i = 0; i < inputs.size(); ++i) give_input(i);
    return {std::move(graph.heads), std::move(graph.variables), std::move(inputs)};
  }

  NodeOutputs take() { return std::move(entries_); }
  size_t size() const { return entries_.size(); }

 private:
  int place(std::pair<const Node*, int> key, const NodeOutput& entry) {
    const auto [known, is_new] = places_.try_emplace(key, static_cast<int>(entries_.size()));
    if (is_new) entries_.push_back(entry);
    return known->second;
  }

  NodeOutputs entries_;
  std::map<std::pair<const Node*, int>, int> places_;
};

// A call of a control-flow operator without name and attributes, and the inputs of its node.
struct ControlFlowCall {
  Call call;
  NodeOutputs inputs;
};
ControlFlowCall call_of(const char* op, IntrusivePtr<const ControlFlow> flow, NodeOutputs inputs);
ControlFlowCall make_foreach(CutSubgraph body, const NodeOutputs& data, const NodeOutputs& states);
ControlFlowCall make_while_loop(CutSubgraph condition, CutSubgraph body,
                                const NodeOutputs& variables, int64_t max_iterations);
ControlFlowCall make_cond(const NodeOutput& predicate, CutSubgraph then, CutSubgraph otherwise);

}  // namespace mxlite::symbol
