#include "cpp/graph/gradient.h"

#include <algorithm>

#include "cpp/graph/rewrite.h"
#include "cpp/ops/grad_builder.h"
#include "cpp/ops/nn/leaky_relu.h"

namespace mxlite::graph {

namespace {

constexpr ValueId kNothing{};
bool exists(ValueId v) { return v.node >= 0; }

// Holds, for each value of a graph, the sum of the gradients that have arrived so far.
class Arrived {
 public:
  explicit Arrived(Graph& joint) : joint_(joint) {
    for (const Node& n : joint.nodes) by_output_.emplace_back(n.outputs.size(), kNothing);
  }
  ValueId at(ValueId v) const {
    return by_output_[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
  }
  // Adds gradients in their order of arrival, as the eager tape does.
  void add(ValueId to, ValueId grad) {
    ValueId& slot = by_output_[static_cast<size_t>(to.node)][static_cast<size_t>(to.output)];
    slot = exists(slot) ? joint_.add_op("elemwise_add", {slot, grad}) : grad;
  }
  bool any(int32_t node) const {
    const auto& outputs = by_output_[static_cast<size_t>(node)];
    return std::any_of(outputs.begin(), outputs.end(), exists);
  }

 private:
  Graph& joint_;
  std::vector<std::vector<ValueId>> by_output_;
};

class GraphGradBuilder final : public GradBuilder {
 public:
  GraphGradBuilder(Graph& joint, int32_t node, const Arrived& arrived,
                   const std::vector<uint8_t>& needs)
      : joint_(joint), node_(joint.node(node)), id_(node), arrived_(arrived), needs_(needs) {}

  int num_inputs() const override { return static_cast<int>(node_.inputs.size()); }
  int num_outputs() const override { return static_cast<int>(node_.outputs.size()); }
  bool needs_grad(int i) const override {
    return needs_[static_cast<size_t>(node_.inputs[static_cast<size_t>(i)].node)] != 0;
  }
  ValueRef input(int i) override { return ref(node_.inputs[static_cast<size_t>(i)]); }
  ValueRef output(int i) override { return ref({id_, i}); }
  const TensorSpec& input_spec(int i) const override {
    return joint_.spec(node_.inputs[static_cast<size_t>(i)]);
  }
  const TensorSpec& output_spec(int i) const override {
    return node_.outputs[static_cast<size_t>(i)];
  }
  bool has_output_grad(int i) const override { return exists(arrived_.at({id_, i})); }
  ValueRef output_grad(int i) override {
    return has_output_grad(i) ? ref(arrived_.at({id_, i})) : zeros(output_spec(i));
  }
  const ParamsRef& params_ref() const override { return node_.params(); }
  bool training() const override { return joint_.training; }
  const TensorSpec& spec(ValueRef v) const override { return joint_.spec(value(v)); }

  using GradBuilder::emit_all;
  std::vector<ValueRef> emit_all(const OpSchema& op, std::span<const ValueRef> inputs,
                                 ParamsRef params) override {
    std::vector<ValueId> values;
    for (ValueRef v : inputs) values.push_back(value(v));
    const ValueId first = joint_.add_op(op, std::move(params), std::move(values),
                                        node_.name().with("_grad_" + op.name));
    std::vector<ValueRef> result;
    for (size_t i = 0; i < joint_.node(first).outputs.size(); ++i)
      result.push_back(ref({first.node, static_cast<int32_t>(i)}));
    return result;
  }

  ValueId value(ValueRef v) const {
    MX_ASSERT(v);
    return values_[static_cast<size_t>(v.id)];
  }

 private:
  ValueRef ref(ValueId v) {
    values_.push_back(v);
    return {static_cast<int32_t>(values_.size() - 1)};
  }

  Graph& joint_;
  const Node node_;  // a copy, because emitting nodes reallocates the joint graph's nodes
  int32_t id_;
  const Arrived& arrived_;
  const std::vector<uint8_t>& needs_;
  std::vector<ValueId> values_;
};

// Each list has an entry for each node. The entry says whether a gradient of the list's kind must
// reach the node's outputs.
struct Needs {
  std::vector<uint8_t> any;    // any gradient, even zeros
  std::vector<uint8_t> value;  // a gradient that affects the gradient of an input or parameter
  std::vector<uint8_t> loss;   // even a gradient of zeros, because an operator before this node
                               // starts a gradient
};

Needs propagate_needs(const Graph& g, std::span<const uint8_t> needs) {
  Needs result;
  for (auto* list : {&result.any, &result.value, &result.loss}) list->resize(g.nodes.size());
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    auto &any = result.any[i], &value = result.value[i], &loss = result.loss[i];
    if (n.kind == NodeKind::kInput) any = value = needs[static_cast<size_t>(n.index)];
    if (n.kind == NodeKind::kParameter)
      any = value = needs[g.inputs.size() + static_cast<size_t>(n.index)];
    if (n.kind != NodeKind::kOp) continue;
    for (ValueId v : n.inputs) {
      const auto input = static_cast<size_t>(v.node);
      any |= result.any[input];
      value |= result.value[input];
      loss |= result.loss[input];
    }
    if (n.op()->zero_gradient) value = loss;
    loss |= value && n.op()->starts_gradient;
  }
  return result;
}

// Adds the gradient of a node to the joint graph. The node's operator must have a gradient rule.
void differentiate(Graph& joint, int32_t node, Arrived& arrived,
                   const std::vector<uint8_t>& needs) {
  const OpSchema& op = *joint.node(node).op();
  GraphGradBuilder builder(joint, node, arrived, needs);
  const std::vector<ValueRef> grads = op.emit_gradient(builder, false);
  const std::vector<ValueId> inputs = joint.node(node).inputs;
  for (size_t k = 0; k < grads.size() && k < inputs.size(); ++k)
    if (grads[k] && needs[static_cast<size_t>(inputs[k].node)])
      arrived.add(inputs[k], builder.value(grads[k]));
}

// If a node has a zero gradient, passes zeros to those of its inputs that depend on a loss.
void pass_zeros_to_losses(Graph& joint, const Node& node, Arrived& arrived, const Needs& needs) {
  for (ValueId v : node.inputs) {
    if (!needs.loss[static_cast<size_t>(v.node)]) continue;
    const TensorSpec& spec = joint.spec(v);
    arrived.add(v, joint.add_op("_zeros", {}, {{"shape", spec.shape}, {"dtype", spec.dtype}}));
  }
}

// Extracts the backward graph from the joint graph. Forward values that backward uses become
// inputs.
class Extraction {
 public:
  Extraction(const Graph& joint, size_t num_forward, BackwardGraph& result, bool repeats)
      : joint_(joint),
        num_forward_(num_forward),
        repeats_(repeats),
        result_(result),
        out_(result.graph) {
    where_.resize(joint.nodes.size());
    needed_.resize(joint.nodes.size());
  }

  void run(const std::vector<int32_t>& head_nodes, std::span<const ValueId> grads) {
    for (ValueId v : grads) need(v);
    for (size_t i = joint_.nodes.size(); i-- > num_forward_;)
      if (needed_[i])
        for (ValueId v : joint_.nodes[i].inputs) need(v);
    collect_forward(grads);
    for (size_t i = 0; i < num_forward_; ++i)
      if (joint_.nodes[i].kind == NodeKind::kParameter) copy(static_cast<int32_t>(i));
    for (ValueId v : result_.saved) add_input(v, joint_.spec(v), joint_.node(v).name());
    for (int32_t id : head_nodes) add_input({id, 0}, joint_.node(id).outputs[0], "head_grad");
    for (size_t i = 0; i < joint_.nodes.size(); ++i)
      if (needed_[i] && where_[i].empty() && (i >= num_forward_ || is_cloned(i))) {
        for (ValueId v : joint_.nodes[i].inputs)
          if (is_repeated(v) && !is_mapped(v)) repeat(v);
        copy(static_cast<int32_t>(i));
      }
    for (ValueId v : grads)
      if (is_repeated(v) && !is_mapped(v)) repeat(v);
    for (ValueId v : grads) out_.outputs.push_back(map(v));
  }

 private:
  void need(ValueId v) { needed_[static_cast<size_t>(v.node)] = 1; }

  // Returns whether recomputing a value costs less than saving it. This holds for reshapes and for
  // nodes without inputs.
  bool is_cloned(size_t i) const {
    const Node& n = joint_.nodes[i];
    if (n.kind == NodeKind::kConstant) return true;
    return n.kind == NodeKind::kOp && (n.op()->alias || (n.inputs.empty() && !is_random(n)));
  }

  // Returns whether backward recomputes a value before the first gradient rule that reads it. This
  // applies to outputs of BatchNorm with relu, LayerNorm and GELU. These outputs are as large as
  // the data, which is saved anyway, and one pass over memory computes them.
  bool is_repeated(ValueId v) const {
    constexpr size_t kLeastBytes = 1 << 20;
    const Node& n = joint_.node(v);
    return repeats_ && v.output == 0 && static_cast<size_t>(v.node) < num_forward_ &&
           n.kind == NodeKind::kOp && (is_batch_norm(n) || is_layer_norm(n) || is_gelu(n)) &&
           n.outputs[0].bytes() >= kLeastBytes && joint_.node(n.inputs[0]).kind == NodeKind::kOp &&
           !is_cloned(static_cast<size_t>(n.inputs[0].node)) && !is_repeated(n.inputs[0]);
  }
  bool scales_by_parameters(const Node& n) const {
    return joint_.node(n.inputs[1]).kind == NodeKind::kParameter &&
           joint_.node(n.inputs[2]).kind == NodeKind::kParameter;
  }
  bool is_batch_norm(const Node& n) const {
    return n.op()->name == "_batch_norm_relu" && scales_by_parameters(n);
  }
  bool is_layer_norm(const Node& n) const {
    return n.op()->name == "LayerNorm" && scales_by_parameters(n);
  }
  static bool is_gelu(const Node& n) {
    if (n.op()->name != "LeakyReLU") return false;
    const auto type = params_of<LeakyReLUParams>(n).act_type;
    return type == LeakyReLUType::kGelu || type == LeakyReLUType::kGeluTanh;
  }
  void repeat(ValueId v) {
    const Node& n = joint_.node(v);
    constexpr size_t kMost = 3;  // data, gamma, beta
    std::vector<ValueId> inputs;
    for (size_t k = 0; k < std::min(n.inputs.size(), kMost); ++k)
      inputs.push_back(map(n.inputs[k]));
    const OpSchema* op = n.op();
    if (is_batch_norm(n)) {
      op = &ops().get("_batch_norm_relu_again");
      for (const int32_t output : {1, 2}) inputs.push_back(map({v.node, output}));  // statistics
    }
    put(v, out_.add_op(*op, n.params(), std::move(inputs), n.name().with("_again")));
  }
  // Returns the values of the forward graph that `repeat` reads, except parameters.
  std::vector<ValueId> read_by_repeat(ValueId v) const {
    const Node& n = joint_.node(v);
    if (is_batch_norm(n)) return {n.inputs[0], {v.node, 1}, {v.node, 2}};
    return {n.inputs[0]};
  }
  bool is_mapped(ValueId v) const {
    const auto& outputs = where_[static_cast<size_t>(v.node)];
    return static_cast<size_t>(v.output) < outputs.size() &&
           exists(outputs[static_cast<size_t>(v.output)]);
  }

  void collect_forward(std::span<const ValueId> grads) {
    for (size_t i = num_forward_; i-- > 0;)
      if (needed_[i] && is_cloned(i))
        for (ValueId v : joint_.nodes[i].inputs) need(v);
    const auto save = [&](ValueId v) {
      if (std::find(result_.saved.begin(), result_.saved.end(), v) == result_.saved.end())
        result_.saved.push_back(v);
    };
    auto visit = [&](std::span<const ValueId> values) {
      for (ValueId v : values) {
        const auto node = static_cast<size_t>(v.node);
        if (node >= num_forward_ || is_cloned(node) ||
            joint_.nodes[node].kind == NodeKind::kParameter)
          continue;
        if (is_repeated(v))
          for (ValueId used : read_by_repeat(v)) save(used);
        else
          save(v);
      }
    };
    for (size_t i = 0; i < joint_.nodes.size(); ++i)
      if (needed_[i] && (i >= num_forward_ || is_cloned(i))) visit(joint_.nodes[i].inputs);
    visit(grads);
  }

  ValueId map(ValueId v) const {
    const auto& outputs = where_[static_cast<size_t>(v.node)];
    MX_ASSERT(static_cast<size_t>(v.output) < outputs.size());
    const ValueId now = outputs[static_cast<size_t>(v.output)];
    MX_ASSERT(exists(now));
    return now;
  }
  void put(ValueId old_value, ValueId new_value) {
    auto& outputs = where_[static_cast<size_t>(old_value.node)];
    outputs.resize(joint_.node(old_value).outputs.size(), kNothing);
    outputs[static_cast<size_t>(old_value.output)] = new_value;
  }
  void copy(int32_t id) {
    Node n = joint_.node(id);
    for (ValueId& v : n.inputs) v = map(v);
    const auto now = static_cast<int32_t>(out_.nodes.size());
    if (n.kind == NodeKind::kParameter) out_.parameters.push_back(now);
    for (size_t k = 0; k < n.outputs.size(); ++k)
      put({id, static_cast<int32_t>(k)}, {now, static_cast<int32_t>(k)});
    out_.nodes.push_back(std::move(n));
  }
  void add_input(ValueId of, const TensorSpec& spec, const NodeName& name) {
    put(of, out_.add_leaf(NodeKind::kInput, spec, name));
  }

  const Graph& joint_;
  size_t num_forward_;
  bool repeats_;
  BackwardGraph& result_;
  Graph& out_;
  std::vector<std::vector<ValueId>> where_;
  std::vector<uint8_t> needed_;
};

}  // namespace

BackwardGraph build_backward(const Graph& forward, std::span<const uint8_t> needs,
                             std::span<const uint8_t> heads, bool repeats) {
  Graph joint = forward;
  const size_t num_forward = forward.nodes.size();
  const Needs node_needs = propagate_needs(forward, needs);
  BackwardGraph result;
  result.graph.name = forward.name + "_backward";
  result.graph.training = forward.training;

  Arrived arrived(joint);
  std::vector<int32_t> head_nodes;
  for (size_t i = 0; i < forward.outputs.size(); ++i) {
    if (!heads[i]) continue;
    const TensorSpec& spec = forward.spec(forward.outputs[i]);
    head_nodes.push_back(joint.add_leaf(NodeKind::kInput, spec, "head_grad").node);
    result.heads.push_back(static_cast<int>(i));
    arrived.add(forward.outputs[i], {head_nodes.back(), 0});
  }
  std::vector<uint8_t> gets_zero(num_forward);  // whether a gradient of zeros flows to the node's
                                                // outputs
  for (size_t i = num_forward; i-- > 0;) {
    const auto id = static_cast<int32_t>(i);
    const Node& n = forward.nodes[i];
    const bool arrives = arrived.any(id);
    if (n.kind != NodeKind::kOp || !node_needs.any[i] || !(arrives || gets_zero[i])) continue;
    for (ValueId v : n.inputs) {
      const auto input = static_cast<size_t>(v.node);
      if (!arrives || n.op()->zero_gradient || !node_needs.value[input]) gets_zero[input] = 1;
    }
    if (!arrives || !node_needs.value[i]) continue;
    if (n.op()->zero_gradient)
      pass_zeros_to_losses(joint, n, arrived, node_needs);
    else if (n.op()->gradient)
      differentiate(joint, id, arrived, node_needs.value);
    else if (!result.not_differentiable)
      result.not_differentiable = n.op();
  }

  std::vector<ValueId> grads;
  auto take = [&](int32_t node, size_t index) {
    const ValueId grad = needs[index] ? arrived.at({node, 0}) : kNothing;
    const bool zero = needs[index] && gets_zero[static_cast<size_t>(node)];
    result.grads.push_back(exists(grad) ? static_cast<int>(grads.size())
                                        : (zero ? BackwardGraph::kZero : BackwardGraph::kNone));
    if (exists(grad)) grads.push_back(grad);
  };
  for (size_t i = 0; i < forward.inputs.size(); ++i) take(forward.inputs[i], i);
  for (size_t i = 0; i < forward.parameters.size(); ++i)
    take(forward.parameters[i], forward.inputs.size() + i);
  Extraction(joint, num_forward, result, repeats).run(head_nodes, grads);
  return result;
}

}  // namespace mxlite::graph
