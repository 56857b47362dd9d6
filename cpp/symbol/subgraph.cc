#include "cpp/symbol/subgraph.h"

#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "cpp/symbol/inference.h"

namespace mxlite::symbol {
namespace {

class Cutter {
 public:
  explicit Cutter(std::vector<NodeRef> arguments) {
    for (const NodeRef& argument : arguments) {
      own_[argument.get()] = argument;
      taken_.insert(argument->name());
    }
    result_.num_arguments = arguments.size();
    result_.variables = std::move(arguments);
  }

  void copy(const NodeRef& node) {
    NodeOutputs inputs;
    for (const NodeOutput& entry : node->inputs) inputs.push_back(moved(entry));
    own_[node.get()] = node->moved(std::move(inputs));
  }

  CutSubgraph finish(const NodeOutputs& heads) {
    for (const NodeOutput& entry : heads) result_.heads.push_back(moved(entry));
    return std::move(result_);
  }

 private:
  NodeOutput moved(const NodeOutput& entry) {
    if (const auto own = own_.find(entry.node.get()); own != own_.end())
      return {own->second, entry.output};
    NodeRef& variable = imported_[{entry.node.get(), entry.output}];
    if (!variable) {
      variable = make_variable(import_name(entry));
      result_.imports.push_back(entry);
      result_.variables.push_back(variable);
    }
    return {variable, 0};
  }

  // Returns the name of an imported value. Adds a suffix if the name is taken.
  std::string import_name(const NodeOutput& entry) {
    std::string name = entry.node->output_name(entry.output);
    if (taken_.contains(name)) name += str("_import", result_.imports.size());
    taken_.insert(name);
    return name;
  }

  CutSubgraph result_;
  std::unordered_map<const Node*, NodeRef> own_;
  std::map<std::pair<const Node*, int>, NodeRef> imported_;
  std::set<std::string> taken_;
};

Inference inference_of(const Subgraph& graph,
                       const std::unordered_map<const Node*, Inference::Known>& known) {
  const auto of = [&](const Node& variable) {
    const auto found = known.find(&variable);
    return found == known.end() ? Inference::Known() : found->second;
  };
  return {graph.heads, of, unknown_extent()};
}

}  // namespace

std::vector<int> used_variables(const NodeOutputs& heads, const std::vector<NodeRef>& variables) {
  std::unordered_map<const Node*, int> numbers;
  for (size_t i = 0; i < variables.size(); ++i) numbers[variables[i].get()] = static_cast<int>(i);
  std::vector<int> result;
  for (const NodeRef& node : topological_order(heads)) {
    if (!node->is_variable()) continue;
    const auto found = numbers.find(node.get());
    MX_CHECK(found != numbers.end(), "the variable '", node->name(),
             "' of a subgraph must be one of the inputs of the subgraph");
    result.push_back(found->second);
  }
  return result;
}

std::vector<int> Subgraph::order() const { return used_variables(heads, variables); }

std::vector<int> Subgraph::written() const {
  std::unordered_set<const Node*> changed;
  for (const NodeRef& node : topological_order(heads))
    for (const int i : node->states())
      changed.insert(node->inputs[static_cast<size_t>(i)].node.get());
  std::vector<int> result;
  for (size_t i = 0; i < variables.size(); ++i)
    if (changed.contains(variables[i].get())) result.push_back(inputs[i]);
  return result;
}

SubgraphSpecs infer(const Subgraph& graph, std::span<const TensorSpec> variables) {
  MX_ASSERT(variables.size() == graph.variables.size());
  std::unordered_map<const Node*, Inference::Known> known;
  for (size_t i = 0; i < variables.size(); ++i) {
    Inference::Known& own = known[graph.variables[i].get()];
    if (variables[i].shape.ndim() >= 0) own.shape = variables[i].shape;
    own.type = variables[i].dtype;
  }
  Inference inference = inference_of(graph, known);
  inference.run_types(DType::kFloat32);
  inference.run_shapes();
  const auto spec = [&](const Node& node, int output, DType fallback) {
    return TensorSpec{inference.shape(node, output),
                      inference.type(node, output).value_or(fallback)};
  };
  SubgraphSpecs found{Specs(variables), {}};
  for (const int i : graph.order())
    found.variables[static_cast<size_t>(i)] =
        spec(*graph.variables[static_cast<size_t>(i)], 0, variables[static_cast<size_t>(i)].dtype);
  for (const NodeOutput& head : graph.heads)
    found.outputs.push_back(spec(*head.node, head.output, DType::kFloat32));
  return found;
}

std::vector<DType> infer_types(const Subgraph& graph, std::span<const DType> variables) {
  MX_ASSERT(variables.size() == graph.variables.size());
  std::unordered_map<const Node*, Inference::Known> known;
  for (size_t i = 0; i < variables.size(); ++i) known[graph.variables[i].get()].type = variables[i];
  Inference inference = inference_of(graph, known);
  inference.run_types(DType::kFloat32);
  std::vector<DType> types;
  for (const NodeOutput& head : graph.heads)
    types.push_back(inference.type(*head.node, head.output).value_or(DType::kFloat32));
  return types;
}

std::string unique_subgraph_name(const std::string& name) {
  static std::mutex mutex;
  static auto* const counts = new std::map<std::string, int64_t>;  // guarded by mutex
  std::lock_guard lock(mutex);
  return str(name, (*counts)[name]++);
}

CutSubgraph cut_subgraph(const NodeOutputs& heads, std::vector<NodeRef> arguments,
                         const std::string& name) {
  Cutter cutter(std::move(arguments));
  for (const NodeRef& node : topological_order(heads)) {
    if (node->is_variable()) continue;
    const Attributes& attrs = node->call->attrs;
    const auto mark = attrs.find(kSubgraphName);
    if (mark != attrs.end() && mark->second == name) cutter.copy(node);
  }
  return cutter.finish(heads);
}

}  // namespace mxlite::symbol
