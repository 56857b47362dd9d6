// Appends an addition or activation to the preceding node if that node's planned kernel can compute
// both.
#include <algorithm>
#include <optional>

#include "cpp/graph/passes/passes.h"
#include "cpp/graph/rewrite.h"

namespace mxlite::graph {
namespace {

class PostOpFuser {
 public:
  PostOpFuser(const Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        rewrite_(graph),
        uses_(count_uses(graph)),
        is_static_(find_static_nodes(graph)) {
    absorbed_by_.assign(graph.nodes.size(), -1);
  }

  Graph run() {
    // Iterates backwards, so that a node joins only the longest chain that it can end.
    find_chains();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (absorbed_by_[i] >= 0) continue;  // the node is a part of a longer chain
      if (chains_[i].empty())
        rewrite_.keep(id);
      else
        write_chain(id);
    }
    return rewrite_.finish();
  }

 private:
  struct Link {
    int32_t node;  // the node that is absorbed
    PostOp op;
    std::optional<ValueId> extra;
  };
  struct Chain {
    int32_t head = -1;
    std::vector<Link> links;
    bool empty() const { return links.empty(); }
  };

  void find_chains() {
    chains_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& n = graph_.nodes[i];
      if (n.kind != NodeKind::kOp || !n.post_ops.empty() || n.inputs.empty()) continue;
      extend(static_cast<int32_t>(i));
    }
  }

  // Tries to append node `id` to the chain that ends in one of its inputs.
  void extend(int32_t id) {
    const Node& n = graph_.node(id);
    if (is_addition(n)) {
      // Prefers the operand that is computed later, because the other operand is already available
      // at that point.
      const int later = n.inputs[1].node > n.inputs[0].node ? 1 : 0;
      if (append(id, n.inputs[static_cast<size_t>(later)],
                 n.inputs[static_cast<size_t>(1 - later)]))
        return;
      append(id, n.inputs[static_cast<size_t>(1 - later)], n.inputs[static_cast<size_t>(later)]);
    } else if (n.inputs.size() == 1 && n.outputs.size() == 1) {
      append(id, n.inputs[0], std::nullopt);
    }
  }

  bool append(int32_t id, ValueId data, std::optional<ValueId> extra) {
    const Node& n = graph_.node(id);
    const size_t last = static_cast<size_t>(data.node);
    if (data.output != 0 || uses_[last][0] != 1 || graph_.node(data).kind != NodeKind::kOp)
      return false;
    if (extra && *extra == data) return false;
    if (graph_.spec(data) != n.outputs[0]) return false;
    for (size_t k = 1; k < uses_[last].size(); ++k)
      if (uses_[last][k] != 0) return false;
    const int32_t head = chains_[last].empty() ? data.node : chains_[last].head;
    const Node& start = graph_.node(head);
    if (head == data.node && absorbed_by_[last] >= 0) return false;
    if (mutates(graph_, start) || is_random(start)) return false;
    for (ValueId v : start.inputs)  // the head runs later than before, so no node in between may
                                    // write its inputs
      if (graph_.node(v).kind == NodeKind::kParameter && !is_static_[static_cast<size_t>(v.node)])
        return false;
    // Eager kernels round a 16-bit result before the addition, but a fused kernel does not.
    if (context_.exact && is_half(n.outputs[0].dtype)) return false;
    const PlannedKernel* kernel = find_planned_kernel(*start.op(), context_.device.type);
    if (!kernel || !kernel->can_fuse) return false;

    PostOp op;
    op.kind = extra ? PostOp::Kind::kAdd : PostOp::Kind::kActivation;
    op.op = n.op();
    op.params = n.params();
    if (!accepts(*kernel, start, chains_[last].links, op, extra)) return false;
    Chain chain = chains_[last];
    chain.head = head;
    chain.links.push_back({id, std::move(op), extra});
    absorbed_by_[last] = id;
    chains_[last] = {};
    chains_[static_cast<size_t>(id)] = std::move(chain);
    return true;
  }

  bool accepts(const PlannedKernel& kernel, const Node& start, const std::vector<Link>& links,
               const PostOp& candidate, std::optional<ValueId> extra) const {
    std::vector<TensorSpec> inputs;
    for (ValueId v : start.inputs) inputs.push_back(graph_.spec(v));
    std::vector<PostOp> post_ops;
    for (const Link& link : links) {
      if (link.extra) inputs.push_back(graph_.spec(*link.extra));
      post_ops.push_back(link.op);
    }
    // Empty arrays use the plain kernel, which does not support post-ops.
    const auto empty = [](const TensorSpec& spec) { return spec.shape.size() == 0; };
    if (std::ranges::any_of(inputs, empty) || std::ranges::any_of(start.outputs, empty))
      return false;
    const std::vector<Layout> layouts(inputs.size());
    const std::vector<uint8_t> constant(inputs.size());
    const PlanRequest request{*start.op(),     start.params().get(),
                              graph_.training, inputs,
                              start.outputs,   layouts,
                              constant,        post_ops};
    const TensorSpec* extra_spec = extra ? &graph_.spec(*extra) : nullptr;
    return kernel.can_fuse(request, candidate, extra_spec);
  }

  void write_chain(int32_t id) {
    const Chain& chain = chains_[static_cast<size_t>(id)];
    Node node = graph_.node(chain.head);
    for (const Link& link : chain.links) {
      if (link.extra) node.inputs.push_back(*link.extra);
      node.post_ops.push_back(link.op);
    }
    for (ValueId& v : node.inputs) v = rewrite_.map(v);
    Graph& out = rewrite_.graph();
    out.nodes.push_back(std::move(node));
    rewrite_.replace({id, 0}, {static_cast<int32_t>(out.nodes.size() - 1), 0});
  }

  const Graph& graph_;
  const PassContext& context_;
  Rewrite rewrite_;
  std::vector<std::vector<int>> uses_;
  std::vector<uint8_t> is_static_;
  std::vector<Chain> chains_;         // indexed by the last node of the chain
  std::vector<int32_t> absorbed_by_;  // -1 if the node is not part of a longer chain
};

}  // namespace

Graph fuse_post_ops(const Graph& graph, const PassContext& context) {
  if (context.small) return graph;
  return PostOpFuser(graph, context).run();
}

}  // namespace mxlite::graph
