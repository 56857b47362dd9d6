// The gradient of an array that was cut into slices is a sum of arrays. Each of these arrays is
// zero except for the gradient of one slice. If the slices cover the whole array, this pass
// concatenates their gradients instead, which gives the same values with one write.
#include <algorithm>
#include <optional>

#include "cpp/graph/passes/training_passes.h"
#include "cpp/graph/rewrite.h"
#include "cpp/ops/tensor/slice.h"

namespace mxlite::graph {
namespace {

class SliceJoiner {
 public:
  explicit SliceJoiner(const Graph& graph)
      : graph_(graph),
        rewrite_(graph),
        uses_(count_uses(graph)),
        joined_(graph.nodes.size()),
        gone_(graph.nodes.size()) {}

  Graph run() {
    // Iterates backwards, because the search for a sum of several arrays begins at its last
    // addition.
    for (size_t i = graph_.nodes.size(); i-- > 0;)
      if (!gone_[i]) find(static_cast<int32_t>(i));
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (gone_[i]) continue;
      if (joined_[i].parts.empty())
        rewrite_.keep(id);
      else
        write(id);
    }
    return rewrite_.finish();
  }

 private:
  struct Join {
    std::vector<int32_t> parts;  // nodes _slice_backward, in the order of their slices
    int axis = 0;
  };

  bool is_op(int32_t id, const char* name) const {
    const Node& n = graph_.node(id);
    return n.kind == NodeKind::kOp && n.op()->name == name && n.post_ops.empty();
  }
  int uses(ValueId v) const {
    return uses_[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
  }
  const SliceBackwardParams& params(int32_t part) const {
    return params_of<SliceBackwardParams>(graph_.node(part));
  }
  const Shape& slice(int32_t part) const { return graph_.spec(graph_.node(part).inputs[0]).shape; }

  // Collects the additions before `id` in `inner` and their other operands in `parts`. Returns
  // false unless all operands are gradients of slices and have no other readers.
  bool collect(int32_t id, std::vector<int32_t>& inner, std::vector<int32_t>& parts) const {
    for (const ValueId v : graph_.node(id).inputs) {
      if (uses(v) != 1 || gone_[static_cast<size_t>(v.node)]) return false;
      if (is_op(v.node, "_slice_backward")) {
        parts.push_back(v.node);
      } else if (is_op(v.node, "elemwise_add")) {
        inner.push_back(v.node);
        if (!collect(v.node, inner, parts)) return false;
      } else {
        return false;
      }
    }
    return true;
  }

  // Returns the axis along which a slice is shorter than the array, or nullopt unless exactly one
  // such axis exists.
  std::optional<int> cut_axis(int32_t part) const {
    const Shape &from = slice(part), &whole = params(part).shape;
    std::optional<int> axis;
    for (int i = 0; i < whole.ndim(); ++i) {
      if (from[i] == whole[i]) continue;
      if (axis) return std::nullopt;
      axis = i;
    }
    return axis;
  }

  // Sorts the slices of one axis. Returns whether the slices cover the axis without a gap or an
  // overlap.
  bool covers(std::vector<int32_t>& parts, int axis) const {
    for (const int32_t part : parts) {
      const SliceBackwardParams& p = params(part);
      for (int i = 0; i < p.shape.ndim(); ++i)
        if (p.step[i] != 1 || (i != axis && p.begin[i] != 0)) return false;
    }
    std::sort(parts.begin(), parts.end(),
              [&](int32_t a, int32_t b) { return params(a).begin[axis] < params(b).begin[axis]; });
    int64_t end = 0;
    for (const int32_t part : parts) {
      if (params(part).begin[axis] != end) return false;
      end += slice(part)[axis];
    }
    return end == params(parts[0]).shape[axis];
  }

  void find(int32_t id) {
    if (!is_op(id, "elemwise_add")) return;
    std::vector<int32_t> inner, parts;
    if (!collect(id, inner, parts)) return;
    const std::optional<int> axis = cut_axis(parts[0]);
    if (!axis) return;
    for (const int32_t part : parts)
      if (cut_axis(part) != axis) return;
    if (!covers(parts, *axis)) return;
    for (const auto* list : {&inner, &parts})
      for (const int32_t node : *list) gone_[static_cast<size_t>(node)] = 1;
    joined_[static_cast<size_t>(id)] = {std::move(parts), *axis};
  }

  void write(int32_t id) {
    const Join& join = joined_[static_cast<size_t>(id)];
    std::vector<ValueId> inputs;
    for (const int32_t part : join.parts)
      inputs.push_back(rewrite_.map(graph_.node(part).inputs[0]));
    const ValueId made = rewrite_.graph().add_op(
        "Concat", std::move(inputs), {{"dim", int64_t{join.axis}}}, graph_.node(id).name());
    rewrite_.replace({id, 0}, made);
  }

  const Graph& graph_;
  Rewrite rewrite_;
  std::vector<std::vector<int>> uses_;
  std::vector<Join> joined_;   // indexed by the last addition
  std::vector<uint8_t> gone_;  // for each node: whether it is joined into a later node
};

}  // namespace

Graph join_slices(const Graph& graph, const PassContext& context) {
  if (context.small) return graph;
  return SliceJoiner(graph).run();
}

}  // namespace mxlite::graph
