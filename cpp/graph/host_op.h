// A host operator has no kernel. The calling thread runs it by calling other operators, graphs or
// Python. Examples are control flow and operators written in Python. A graph is cut into segments
// at its host operators (run/segments.h).
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/graph/graph.h"
#include "cpp/ops/invoke.h"

namespace mxlite::graph {

// Description of a host operator. A node of a symbol can be created from it.
struct HostOpForm {
  Attributes attrs;  // parameters as text
  struct CalledGraph {
    std::shared_ptr<const Graph> graph;
    std::vector<int> inputs;  // for each input of the graph, then for each parameter: index
                              // of an input of the operator
  };
  std::vector<CalledGraph> parts;  // graphs that a loop or branch calls
  int num_variables = 0;       // number of loop variables, which are the operator's first inputs
  int64_t max_iterations = 0;  // limit of a while loop
};

class HostOp : public RefCounted {
 public:
  // Returns the specs of the outputs. Throws like an operator's shape rule. The specs of the inputs
  // must be known.
  virtual Specs infer(std::span<const TensorSpec> inputs) const = 0;
  // Fills unknown dimensions of inputs where possible.
  virtual void complete(std::span<TensorSpec>) const {}
  // Returns whether the operator changes this input in place.
  virtual bool writes(int) const { return false; }
  // Runs the operator in the current mode on arrays that have data. Autograd records the calls that
  // the operator makes.
  virtual NDArrays call(std::span<const NDArrayRef> inputs) const = 0;

  // Returns nullopt if symbols cannot contain the operator.
  virtual std::optional<HostOpForm> form() const { return std::nullopt; }

  // Only symbols call the functions below.
  virtual int num_inputs() const { return -1; }  // -1 means any number
  virtual int num_outputs(int /*num_inputs*/) const { return 1; }
  virtual std::string input_name(int index) const { return str("data", index); }
  // May have fewer entries than outputs.
  virtual std::vector<std::string> output_names() const { return {}; }
  // Returns the inputs that the operator changes in place.
  virtual std::vector<int> written(int num_inputs) const;
  // Returns false if the ordinary type rules apply.
  virtual bool fill_types(KnownTypes, KnownTypes) const { return false; }
};
using HostOpRef = IntrusivePtr<const HostOp>;

// Parameters of a call of a HostOp.
struct HostOpParams {
  HostOpRef op;
  static constexpr auto fields() { return std::tuple(); }
};

// Returns the schema for calls of a host operator. The schema is not in ops(), because it has no
// kernels.
const OpSchema& host_schema(const std::string& name);

// Wraps the operator as the parameters of a call.
ParamsRef host_params(HostOpRef op);

// Returns the host operator, or null for a call of another operator.
const HostOp* host_op(const OpSchema& op, const ParamsRef& params);

// Adds a node to the current trace, or runs the operator.
NDArrays call_host_op(const std::string& name, HostOpRef op, std::span<const NDArrayRef> inputs);

}  // namespace mxlite::graph
