// Writes -symbol.json files in the layout of 1.9.1.
#include "cpp/base/json.h"
#include "cpp/symbol/control_flow_files.h"
#include "cpp/symbol/listing.h"
#include "cpp/symbol/numpy_names.h"
#include "cpp/symbol/passes/passes.h"

namespace mxlite::symbol {
namespace {

constexpr int kVersion = 10901;

using Fields = std::vector<std::pair<std::string, std::string>>;  // values are JSON texts
using Texts = std::vector<std::string>;

std::string new_line(int indent) {
  std::string text(static_cast<size_t>(std::max(indent, 0)) + 1, ' ');
  text[0] = '\n';
  return text;
}

std::string joined(std::string text, const Texts& items, const std::string& between,
                   const std::string& end) {
  for (size_t i = 0; i < items.size(); ++i) text.append(i ? between : "").append(items[i]);
  return text.append(end);
}

// Writes each item on a separate line.
std::string on_lines(const std::string& begin, const Texts& items, int indent,
                     const std::string& end) {
  const std::string inner = new_line(items.empty() ? 0 : indent + 2);
  return joined(begin + inner, items, ", " + inner, new_line(indent) + end);
}

std::string object(const Fields& fields, int indent, bool lines) {
  Texts items;
  for (const auto& [key, value] : fields) items.push_back(json_text(key) + ": " + value);
  return lines ? on_lines("{", items, indent, "}") : joined("{", items, ", ", "}");
}

// Writes up to ten items on one line, and more items on separate lines.
std::string array(const Texts& items, int indent) {
  return items.size() > 10 ? on_lines("[", items, indent, "]") : joined("[", items, ", ", "]");
}

class Writer {
 public:
  explicit Writer(bool np_shape) : np_shape_(np_shape) {}

  // Returns the fields of a graph. Subgraphs have a larger indent.
  Fields graph(const NodeOutputs& heads, int indent) const {
    const Listing listing(heads);
    std::vector<int> versions(listing.nodes.size());
    const auto reference = [&](graph::ValueId v) {
      return str("[", v.node, ", ", v.output, ", ", versions[static_cast<size_t>(v.node)], "]");
    };
    Texts items, variables, rows{"0"};
    int row = 0;
    for (size_t id = 0; id < listing.nodes.size(); ++id) {
      const NodeRef& node = listing.nodes[id];
      const std::vector<graph::ValueId>& values = listing.graph.nodes[id].inputs;
      if (node->is_variable()) variables.push_back(std::to_string(id));
      std::vector<bool> written(values.size());
      for (const int i : node->states()) written[static_cast<size_t>(i)] = true;
      Texts inputs;
      for (size_t i = 0; i < values.size(); ++i) {
        if (written[i]) ++versions[static_cast<size_t>(values[i].node)];
        inputs.push_back(reference(values[i]));
      }
      items.push_back(item(node, inputs, indent));
      row += node->is_variable() ? 1 : node->call->total_outputs(node->num_inputs());
      rows.push_back(std::to_string(row));
    }
    Texts outputs;
    for (const graph::ValueId v : listing.graph.outputs) outputs.push_back(reference(v));
    return {{"nodes", on_lines("[", items, indent + 2, "]")},
            {"arg_nodes", array(variables, indent + 2)},
            {"node_row_ptr", array(rows, indent + 2)},
            {"heads", array(outputs, indent + 2)}};
  }

 private:
  std::string item(const NodeRef& node, const Texts& inputs, int indent) const {
    const ControlFlow::Saved saved = saved_form(*node);
    const std::string op = node->is_variable() ? "null" : node->op();
    Fields fields{{"op", json_text(np_shape_ ? numpy_file_name(op) : op)},
                  {"name", json_text(node->name())}};
    if (!saved.attrs.empty()) {
      Fields attrs;
      for (const auto& [key, text] : saved.attrs) attrs.emplace_back(key, json_text(text));
      fields.emplace_back("attrs", object(attrs, indent + 6, attrs.size() > 1));
    }
    fields.emplace_back("inputs", array(inputs, indent + 6));
    if (!saved.graphs.empty()) {
      const int inner = indent + 8;
      Texts graphs;
      for (const NodeOutputs& heads : saved.graphs)
        graphs.push_back(object(graph(heads, inner), inner, true));
      fields.emplace_back("subgraphs", on_lines("[", graphs, inner - 2, "]"));
    }
    return object(fields, indent + 4, true);
  }

  const bool np_shape_;
};

}  // namespace

std::string to_json(const NodeOutputs& heads, bool remove_amp_cast, bool np_shape) {
  Fields fields =
      Writer(np_shape).graph(remove_amp_cast ? run_pass("remove-casts", heads) : heads, 0);
  const std::string shapes = np_shape ? R"("is_np_shape": ["int", 1], )" : "";
  fields.emplace_back("attrs", str("{", shapes, R"("mxnet_version": ["int", )", kVersion, "]}"));
  return object(fields, 0, true);
}

}  // namespace mxlite::symbol
