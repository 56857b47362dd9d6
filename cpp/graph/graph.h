// A graph: nodes in topological order; a value is (node, output). Traces make graphs and passes
// change them. Shapes are fixed, because an executable serves one signature. Only the listing of a
// symbol is a graph with shapes that are not known yet.
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
  kInput,      // data; another array at every run
  kParameter,  // weights and running statistics: the same array, with a version, at every run
  kConstant,   // value known at compile time
  kOp,
};

struct Node {
  NodeKind kind = NodeKind::kOp;
  CallRef call;                     // never null; only the name is set unless kind is kOp
  std::vector<ValueId> inputs;      // the op's own, then the extra inputs of post_ops
  std::vector<TensorSpec> outputs;  // specs, including hidden outputs
  std::vector<PostOp> post_ops;
  NDArrayRef value;  // kConstant: the value; kParameter: the captured array, or null
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
  // These infer the specs of the outputs. The default name is operator and position: relu3.
  ValueId add_op(CallRef call, std::vector<ValueId> inputs);
  ValueId add_op(const OpSchema& op, ParamsRef params, std::vector<ValueId> inputs,
                 NodeName name = {});
  ValueId add_op(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
                 NodeName name = {});
  std::string text() const;  // for MXLITE_DUMP_GRAPH and tests
};

// Returns, by node, whether the values depend on it.
std::vector<uint8_t> find_needed(const Graph& graph, std::span<const ValueId> values);

}  // namespace mxlite::graph
