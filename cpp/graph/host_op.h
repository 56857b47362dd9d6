// An operator that the calling thread carries out by calling other operators, graphs or Python,
// so it is not a kernel: control flow, operators written in Python. A graph that has one is
// cut there (split.h).
#pragma once
#include <span>
#include <string>

#include "cpp/graph/graph.h"
#include "cpp/ops/invoke.h"

namespace mxlite::graph {

class HostOp : public RefCounted {
 public:
  // Throws like an operator's shape rule. Inputs are known.
  virtual Specs infer(std::span<const TensorSpec> inputs) const = 0;
  // Fills unknown dimensions of inputs where possible.
  virtual void complete(std::span<TensorSpec>) const {}
  // Returns whether the operator changes this input in place.
  virtual bool writes(int) const { return false; }
  // Runs on arrays that have data, in the current mode, and records its calls.
  virtual NDArrays call(std::span<const NDArrayRef> inputs) const = 0;
};
using HostOpRef = IntrusivePtr<const HostOp>;

// Parameters of a node that stands for a HostOp.
struct HostOpParams {
  HostOpRef op;
  static constexpr auto fields() { return std::tuple(); }
};

// Returns the schema of such nodes, by name; not among ops(), because it cannot be called.
const OpSchema& host_schema(const std::string& name);

// Returns null for nodes of other operators.
const HostOp* host_op(const Node& node);

// Adds a node to the current trace, or runs the operator.
NDArrays call_host_op(const std::string& name, HostOpRef op, std::span<const NDArrayRef> inputs);

}  // namespace mxlite::graph
