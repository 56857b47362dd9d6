// Checks the invariants of a graph after each pass, if requested.
#include "cpp/graph/passes/passes.h"
#include "cpp/ops/invoke.h"

namespace mxlite::graph {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const char* after, bool has_shapes)
      : graph_(graph), after_(after), has_shapes_(has_shapes) {}

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) check_node(static_cast<int32_t>(i));
    check_list(graph_.inputs, NodeKind::kInput, "input");
    check_list(graph_.parameters, NodeKind::kParameter, "parameter");
    for (ValueId v : graph_.outputs) check_value(v, graph_.nodes.size(), "graph output");
  }

 private:
  template <class... Args>
  void require(bool condition, const Args&... args) const {
    if (condition) [[likely]]
      return;
    fail(ErrorKind::kError, "internal error, please report: graph ", graph_.name, " after ", after_,
         ": ", args..., '\n', graph_.text());
  }

  void check_value(ValueId v, size_t limit, const std::string& who) const {
    require(v.node >= 0 && static_cast<size_t>(v.node) < limit, who, " uses node %", v.node,
            ", which is not computed before");
    require(v.output >= 0 && static_cast<size_t>(v.output) < graph_.node(v).outputs.size(), who,
            " uses output ", v.output, " of node %", v.node, ", which has fewer");
  }

  void check_node(int32_t id) const {
    const Node& n = graph_.node(id);
    const std::string who = str("node %", id, " (", n.name().label(), ')');
    for (ValueId v : n.inputs) check_value(v, static_cast<size_t>(id), who);
    for (const TensorSpec& s : n.outputs)
      require(!has_shapes_ || s.shape.is_known(), who, " has the unknown shape ", s.shape);
    if (n.kind != NodeKind::kOp) {
      require(n.inputs.empty() && n.outputs.size() == 1, who,
              " has inputs, which only operators may have");
      require(n.kind != NodeKind::kConstant || n.value, who, " is a constant without value");
      return;
    }
    require(n.op() != nullptr, who, " has no operator");
    if (!has_shapes_) {
      const int count = n.call->num_outputs(static_cast<int>(n.inputs.size()));
      require(n.outputs.size() == static_cast<size_t>(count), who, " has ", n.outputs.size(),
              " outputs, its call has ", count);
      return;
    }
    size_t own = n.inputs.size();
    for (const PostOp& p : n.post_ops) own -= p.kind == PostOp::Kind::kAdd;
    std::vector<TensorSpec> specs;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (k < own)
        specs.push_back(graph_.spec(n.inputs[k]));
      else
        require(graph_.spec(n.inputs[k]) == n.outputs[0], who, " adds an input of another shape");
      require(!n.op()->mutates(static_cast<int>(k), graph_.training) ||
                  graph_.node(n.inputs[k]).kind == NodeKind::kParameter,
              who, " writes input ", k, ", which must be a parameter");
    }
    const Specs inferred = infer_outputs(*n.op(), n.params().get(), specs);
    require(std::equal(inferred.begin(), inferred.end(), n.outputs.begin(), n.outputs.end()), who,
            " has other output shapes than its operator infers");
  }

  void check_list(const std::vector<int32_t>& ids, NodeKind kind, const char* what) const {
    size_t found = 0;
    for (const Node& n : graph_.nodes) found += n.kind == kind;
    require(found == ids.size(), ids.size(), " ", what, "s are listed, ", found,
            " are in the graph");
    for (size_t i = 0; i < ids.size(); ++i)
      require(graph_.node(ids[i]).kind == kind && graph_.node(ids[i]).index == static_cast<int>(i),
              what, " ", i, " is listed wrongly");
  }

  const Graph& graph_;
  const char* after_;
  bool has_shapes_;
};

}  // namespace

void verify(const Graph& graph, const char* after, bool has_shapes) {
  Verifier(graph, after, has_shapes).run();
}

}  // namespace mxlite::graph
