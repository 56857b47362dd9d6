// Nodes in topological order, values are (node, output): the one form of a network that is read
// by position. A trace makes it and passes change it, with fixed shapes, because an executable
// serves one signature. A symbol's listing is one, too, with shapes that are not known yet.
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
  kInput,      // data, new at every run
  kParameter,  // weights and running statistics: a lasting array with a version
  kConstant,   // value known when the graph was made
  kOp,
};

struct Node {
  NodeKind kind = NodeKind::kOp;
  CallRef call;                     // never null; has only a name if the node is no kOp
  std::vector<ValueId> inputs;      // the op's own, then the extra inputs of post_ops
  std::vector<TensorSpec> outputs;  // specs, hidden outputs too
  std::vector<PostOp> post_ops;
  NDArrayRef value;  // kConstant: the value; kParameter of a captured array: that array
  int index = -1;    // kInput, kParameter: position in Graph::inputs / Graph::parameters

  const OpSchema* op() const { return call->op; }
  const ParamsRef& params() const { return call->params; }
  const NodeName& name() const { return call->name; }
};

struct Graph {
  std::string name;  // name of the block, for errors and dumps
  std::vector<Node> nodes;
  std::vector<int32_t> inputs, parameters;  // node ids
  std::vector<ValueId> outputs;
  bool training = false;  // mode of training-dependent ops

  const Node& node(int32_t id) const { return nodes[static_cast<size_t>(id)]; }
  const Node& node(ValueId v) const { return node(v.node); }
  const TensorSpec& spec(ValueId v) const { return node(v).outputs[static_cast<size_t>(v.output)]; }
  // Adds an input, a parameter or a constant.
  ValueId add_leaf(NodeKind kind, const TensorSpec& spec, NodeName name, NDArrayRef value = {});
  // These infer the specs of the outputs. Without a name: the operator and the position, relu3.
  ValueId add_op(CallRef call, std::vector<ValueId> inputs);
  ValueId add_op(const OpSchema& op, ParamsRef params, std::vector<ValueId> inputs,
                 NodeName name = {});
  ValueId add_op(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
                 NodeName name = {});
  std::string text() const;  // for MXLITE_DUMP_GRAPH and tests
};

// Marks, by node, what the values are computed from.
std::vector<uint8_t> find_needed(const Graph& graph, std::span<const ValueId> values);

}  // namespace mxlite::graph
