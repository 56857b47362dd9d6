// Writes -symbol.json files, laid out as 1.9.1 does.
#include <unordered_map>

#include "cpp/base/json.h"
#include "cpp/symbol/files.h"

namespace mxlite::symbol {
namespace {

constexpr int kVersion = 10901;

using Fields = std::vector<std::pair<std::string, std::string>>;  // values are JSON already
using Texts = std::vector<std::string>;

std::string pad(int indent) { return std::string(static_cast<size_t>(std::max(indent, 0)), ' '); }

std::string joined(const Texts& items, const std::string& between) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) text.append(i ? between : "").append(items[i]);
  return text;
}

std::string object(const Fields& fields, int indent, bool on_lines) {
  Texts items;
  for (const auto& [key, value] : fields) items.push_back(str(json_text(key), ": ", value));
  if (!on_lines) return str("{", joined(items, ", "), "}");
  const std::string inner = pad(indent + 2);
  return str("{\n", inner, joined(items, ", \n" + inner), "\n", pad(indent), "}");
}

// On one line up to ten items.
std::string array(const Texts& items, int indent) {
  if (items.size() <= 10) return str("[", joined(items, ", "), "]");
  const std::string inner = pad(indent + 2);
  return str("[\n", inner, joined(items, ", \n" + inner), "\n", pad(indent), "]");
}

// Each item on lines of its own.
std::string lines(const Texts& items, int indent) {
  const std::string inner = items.empty() ? "" : pad(indent);
  return str("[\n", inner, joined(items, ", \n" + inner), "\n", pad(indent - 2), "]");
}

Entries without_amp_casts(const Entries& heads) {
  std::unordered_map<const Node*, NodeRef> moved;
  std::unordered_map<const Node*, Entries> skipped;
  const auto source = [&](const Entry& entry) -> Entry {
    const auto found = skipped.find(entry.node.get());
    if (found != skipped.end()) return found->second[static_cast<size_t>(entry.output)];
    return {moved.at(entry.node.get()), entry.output};
  };
  const auto sources = [&](const Entries& entries) {
    Entries result;
    for (const Entry& entry : entries) result.push_back(source(entry));
    return result;
  };
  for (const NodeRef& node : topological_order(heads)) {
    if (node->call && node->call->casts_precision())
      skipped[node.get()] = sources(node->inputs);
    else
      moved[node.get()] = node->moved(sources(node->inputs));
  }
  return sources(heads);
}

class Writer {
 public:
  explicit Writer(const FileHooks& hooks) : hooks_(hooks) {}

  // The fields of a graph, or of a subgraph that begins further to the right.
  Fields graph(const Entries& heads, int indent) {
    const std::vector<NodeRef> nodes = topological_order(heads);
    std::unordered_map<const Node*, int> ids, versions;
    Texts items, variables, rows{"0"};
    int row = 0;
    for (const NodeRef& node : nodes) {
      const int id = static_cast<int>(ids.size());
      ids[node.get()] = id;
      if (node->is_variable()) variables.push_back(std::to_string(id));
      std::vector<bool> written(node->inputs.size());
      for (const int i : node->states()) written[static_cast<size_t>(i)] = true;
      Texts inputs;
      for (size_t i = 0; i < node->inputs.size(); ++i) {
        const Entry& entry = node->inputs[i];
        if (written[i]) ++versions[entry.node.get()];
        inputs.push_back(reference(entry, ids, versions));
      }
      items.push_back(item(node, inputs, indent));
      row += node->total_outputs();
      rows.push_back(std::to_string(row));
    }
    Texts outputs;
    for (const Entry& head : heads) outputs.push_back(reference(head, ids, versions));
    return {{"nodes", lines(items, indent + 4)},
            {"arg_nodes", array(variables, indent + 2)},
            {"node_row_ptr", array(rows, indent + 2)},
            {"heads", array(outputs, indent + 2)}};
  }

 private:
  using Numbers = std::unordered_map<const Node*, int>;
  static std::string reference(const Entry& entry, const Numbers& ids, Numbers& versions) {
    return str("[", ids.at(entry.node.get()), ", ", entry.output, ", ", versions[entry.node.get()],
               "]");
  }

  std::string item(const NodeRef& node, const Texts& inputs, int indent) {
    SavedLoop loop{node->attrs, {}};
    if (!node->is_variable() && !dynamic_cast<const OpCall*>(node->call.get()))
      loop = hooks_.save_loop(node);
    Fields fields{{"op", json_text(node->is_variable() ? "null" : node->op)},
                  {"name", json_text(node->name)}};
    if (!loop.attrs.empty()) {
      Fields attrs;
      for (const auto& [key, text] : loop.attrs) attrs.emplace_back(key, json_text(text));
      fields.emplace_back("attrs", object(attrs, indent + 6, attrs.size() > 1));
    }
    fields.emplace_back("inputs", array(inputs, indent + 6));
    if (!loop.graphs.empty()) {
      const int inner = indent + 8;
      Texts graphs;
      for (const Entries& heads : loop.graphs)
        graphs.push_back(object(graph(heads, inner), inner, true));
      fields.emplace_back("subgraphs", lines(graphs, inner));
    }
    return object(fields, indent + 4, true);
  }

  const FileHooks& hooks_;
};

}  // namespace

std::string to_json(const Entries& heads, bool remove_amp_cast, const FileHooks& hooks) {
  Fields fields = Writer(hooks).graph(remove_amp_cast ? without_amp_casts(heads) : heads, 0);
  const std::string shapes = hooks.np_shape ? R"("is_np_shape": ["int", 1], )" : "";
  fields.emplace_back("attrs", str("{", shapes, R"("mxnet_version": ["int", )", kVersion, "]}"));
  return object(fields, 0, true);
}

}  // namespace mxlite::symbol
