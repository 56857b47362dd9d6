// An operator that the calling thread carries out by calling other operators, graphs or Python,
// so it is not a kernel: control flow, operators written in Python. A graph that has one is
// cut there (run/segments.h).
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/graph/graph.h"
#include "cpp/ops/invoke.h"

namespace mxlite::graph {

// The contents of a host operator, from which a symbol's node can be made.
struct HostOpForm {
  Attributes attrs;  // parameters as text
  struct Part {
    std::shared_ptr<const Graph> graph;
    std::vector<int> inputs;  // positions among the operator's inputs: by graph input, parameter
  };
  std::vector<Part> parts;     // the graphs that a loop or branch calls
  int num_variables = 0;       // the operator's first inputs are the variables of a loop
  int64_t max_iterations = 0;  // limit of a loop
};

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

  // Returns nothing if no symbol can hold the operator.
  virtual std::optional<HostOpForm> form() const { return std::nullopt; }

  // Only symbols ask these, of the operators that they have.
  virtual int num_inputs() const { return -1; }  // -1: any number
  virtual int num_outputs(int /*num_inputs*/) const { return 1; }
  virtual std::string input_name(int index) const { return str("data", index); }
  virtual std::vector<std::string> output_names() const { return {}; }  // names of the first ones
  virtual std::vector<int> written(int num_inputs) const;               // inputs that it changes
  // Returns false if ordinary rules shall fill the types.
  virtual bool fill_types(KnownTypes, KnownTypes) const { return false; }
};
using HostOpRef = IntrusivePtr<const HostOp>;

// Parameters of a call of a HostOp.
struct HostOpParams {
  HostOpRef op;
  static constexpr auto fields() { return std::tuple(); }
};

// Returns the schema of such calls, by name; not among ops(), because it cannot be called.
const OpSchema& host_schema(const std::string& name);

// The parameters of a call of the operator.
ParamsRef host_params(HostOpRef op);

// Returns null for other operators.
const HostOp* host_op(const OpSchema& op, const ParamsRef& params);

// Adds a node to the current trace, or runs the operator.
NDArrays call_host_op(const std::string& name, HostOpRef op, std::span<const NDArrayRef> inputs);

}  // namespace mxlite::graph
