// An operator that the calling thread carries out by calling other operators, graphs or Python, and
// that is therefore no kernel: control flow, operators written in Python. A graph that has one is
// cut there (split.h).
#pragma once
#include <span>
#include <string>

#include "cpp/graph/graph.h"
#include "cpp/ops/invoke.h"

namespace mxlite::graph {

class HostOp : public RefCounted {
 public:
  // Throws as an operator's shape rule does. Inputs are known.
  virtual Specs infer(std::span<const TensorSpec> inputs) const = 0;
  // Fills unknown dimensions of inputs where it can.
  virtual void complete(std::span<TensorSpec>) const {}
  // Runs on arrays that have data, in the current mode, and records what it does.
  virtual NDArrays call(std::span<const NDArrayRef> inputs) const = 0;
};
using HostOpRef = IntrusivePtr<const HostOp>;

// Parameters of a node that stands for a HostOp.
struct HostOpParams {
  HostOpRef op;
  static constexpr auto fields() { return std::tuple(); }
};

// The schema of such nodes, by name; not among ops(), because nobody calls it by name.
const OpSchema& host_schema(const std::string& name);

// Null for nodes of other operators.
const HostOp* host_op(const Node& node);

// Adds a node to the current trace, or runs the operator.
NDArrays call_host_op(const std::string& name, HostOpRef op, std::span<const NDArrayRef> inputs);

}  // namespace mxlite::graph
