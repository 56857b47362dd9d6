// A graph is a list of nodes in topological order. A value is identified by node and output. Traces
// create graphs, and passes transform them. Shapes are fixed, because an executable serves one
// signature. Only the graph that is the listing of a symbol has unknown shapes.
#pragma once
#include <string>
#include <vector>

#include "cpp/graph/call.h"
#include "cpp/ndarray/ndarray.h"
#include "cpp/ops/planned_kernel.h"

namespace mxlite::graph {

struct ValueId {
  int32_t node = -1;
  int32_t output = 0;
  bool operator==(const ValueId&) const = default;
};

enum class NodeKind : uint8_t {
  kInput,      // data; each run passes another array
  kParameter,  // weight or running statistics; each run uses the same array, perhaps with another
               // version
  kConstant,   // value known at compile time
  kOp,
};

struct Node {
  NodeKind kind = NodeKind::kOp;
  CallRef call;                     // never null; only the name is set unless kind is kOp
  std::vector<ValueId> inputs;      // inputs of the operator, then the extra inputs of post_ops
  std::vector<TensorSpec> outputs;  // specs, including hidden outputs
  std::vector<PostOp> post_ops;
  NDArrayRef value;  // the value of a kConstant, or the captured array of a kParameter (may be
                     // null)
  int index = -1;    // for kInput and kParameter: position in Graph::inputs or Graph::parameters

  const OpSchema* op() const { return call->op; }
  const ParamsRef& params() const { return call->params; }
  const NodeName& name() const { return call->name; }
};

struct Graph {
  std::string name;  // name of the block, for errors and dumps
  std::vector<Node> nodes;
  std::vector<int32_t> inputs, parameters;  // node ids
  std::vector<ValueId> outputs;
  bool training = false;  // whether training-dependent ops run in training mode

  const Node& node(int32_t id) const { return nodes[static_cast<size_t>(id)]; }
  const Node& node(ValueId v) const { return node(v.node); }
  const TensorSpec& spec(ValueId v) const { return node(v).outputs[static_cast<size_t>(v.output)]; }
  // Adds an input, a parameter or a constant.
  ValueId add_leaf(NodeKind kind, const TensorSpec& spec, NodeName name, NDArrayRef value = {});
  // Infers the specs of the outputs. The default name consists of operator and position, such as
  // relu3.
  ValueId add_op(CallRef call, std::vector<ValueId> inputs);
  ValueId add_op(const OpSchema& op, ParamsRef params, std::vector<ValueId> inputs,
                 NodeName name = {});
  ValueId add_op(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
                 NodeName name = {});
  std::string text() const;  // for MXLITE_DUMP_GRAPH and tests
};

// Returns for each node whether `values` depend on it.
std::vector<uint8_t> find_needed(const Graph& graph, std::span<const ValueId> values);

}  // namespace mxlite::graph
