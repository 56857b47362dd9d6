// The program that a trace makes and passes change: nodes in topological order, values are
// (node, output). Shapes are fixed, because an executable serves one signature.
#pragma once
#include <string>
#include <vector>

#include "cpp/ndarray/ndarray.h"
#include "cpp/ops/op_schema.h"
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
  const OpSchema* op = nullptr;  // kOp only
  ParamsRef params;
  std::vector<ValueId> inputs;      // the op's own, then the extra inputs of post_ops
  std::vector<TensorSpec> outputs;  // specs, hidden outputs too
  std::string name;
  std::vector<PostOp> post_ops;
  NDArrayRef value;  // kConstant: the value; kParameter of a captured array: that array
  int index = -1;    // kInput, kParameter: position in Graph::inputs / Graph::parameters
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
  // Infers the specs of the outputs.
  ValueId add_op(const OpSchema& op, ParamsRef params, std::vector<ValueId> inputs,
                 std::string name = {});
  ValueId add_op(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
                 std::string name = {});
  std::string text() const;  // for MXLITE_DUMP_GRAPH and tests
};

}  // namespace mxlite::graph
