// Reads -symbol.json files of any version of MXNet 1.x. Checks the whole graph, converts old files
// to the current form, and then creates the nodes.
#include <algorithm>

#include "cpp/base/json.h"
#include "cpp/ops/op_schema.h"
#include "cpp/symbol/compose.h"
#include "cpp/symbol/control_flow_files.h"
#include "cpp/symbol/inference.h"
#include "cpp/symbol/names.h"
#include "cpp/symbol/numpy_names.h"

namespace mxlite::symbol {
namespace {

// A graph has four levels of JSON, and each node of the graph has a few more levels.
constexpr int kJsonDepth = 4 * (kMaxDepth + 4);

template <class... Args>
[[noreturn]] void damaged(const Args&... args) {
  throw FileError(str(args...));
}

// Returns a member of an object, or null if it is missing or JSON's null.
const Json* member(const Json* value, const char* name) {
  if (!value || !value->is_object()) return nullptr;
  const auto found = value->find(name);
  return found == value->end() || found->is_null() ? nullptr : &*found;
}

const Json::array_t& items_of(const Json& list) { return list.get_ref<const Json::array_t&>(); }
const std::string& text_of(const Json& text) { return text.get_ref<const std::string&>(); }

std::string shown(const Json* value) {
  std::string text = value ? value->dump() : "nothing";
  if (value && value->is_array()) {
    text.clear();
    for (const Json& item : *value) text.append(text.empty() ? "[" : ", ").append(item.dump());
    text.append(text.empty() ? "[]" : "]");
  }
  size_t longest = 80;
  if (text.size() <= longest) return text;
  while ((text[longest] & 0xC0) == 0x80) --longest;  // avoids cutting within a UTF-8 character
  return text.substr(0, longest) + " ...";
}

// -- checks --------------------------------------------------------------------------------------

bool is_integer(const Json& value) {
  return value.is_number_unsigned() ? value.get<uint64_t>() <= INT64_MAX
                                    : value.is_number_integer();
}

std::vector<int64_t> numbers(const Json& value, const std::string& label) {
  std::vector<int64_t> result;
  bool fits = value.is_array();
  for (size_t i = 0; fits && i < value.size(); ++i) {
    fits = is_integer(value[i]);
    if (fits) result.push_back(value[i].get<int64_t>());
  }
  if (!fits) damaged(label, " must be a list of integers, got ", shown(&value));
  return result;
}

// Checks a reference, which has the form [node, output, version]. Older files have no version.
void check_reference(const Json& reference, size_t nodes, const std::string& label,
                     const char* reason) {
  const std::vector<int64_t> parts = numbers(reference, label);
  if ((parts.size() != 2 && parts.size() != 3) || *std::min_element(parts.begin(), parts.end()) < 0)
    damaged(label, " must be [node, output, version], got ", shown(&reference));
  if (parts[0] >= static_cast<int64_t>(nodes))
    damaged(label, ", which is ", reason, "; ",
            nodes ? str("a node from 0 to ", nodes - 1) : "no node", " can be named");
  if (parts[1] > INT32_MAX)
    damaged(label, ": the output must be at most ", INT32_MAX, ", got ", parts[1]);
}

class Checker {
 public:
  void graph(const Json& graph, const std::string& label, int depth) {
    if (depth > kMaxDepth)
      damaged(label, ": subgraphs are nested deeper than ", kMaxDepth, " levels");
    const Json* items = member(&graph, "nodes");
    if (!items || !items->is_array()) damaged(label, " has no list 'nodes'");
    const Json::array_t& nodes = items_of(*items);
    count_ += nodes.size();
    if (count_ > kMaxNodes) damaged(label, " has more than ", kMaxNodes, " nodes");
    for (size_t i = 0; i < nodes.size(); ++i) node(nodes[i], i, label, depth);
    const Json* heads = member(&graph, "heads");
    if (!heads || !heads->is_array() || heads->empty())
      damaged(label, " is damaged: it has no list 'heads' of outputs");
    for (const Json& head : items_of(*heads))
      check_reference(head, nodes.size(), str(label, ": head ", shown(&head)),
                      "no node of the file");
    if (const Json* variables = member(&graph, "arg_nodes"))
      for (const int64_t at : numbers(*variables, label + ": 'arg_nodes'"))
        if (at < 0 || at >= static_cast<int64_t>(nodes.size()) ||
            text_of(nodes[static_cast<size_t>(at)].at("op")) != "null")
          damaged(label, ": 'arg_nodes' lists node ", at, ", which is no variable of the file");
    version(member(&graph, "attrs"), label);
  }

 private:
  void node(const Json& item, size_t position, const std::string& file, int depth) {
    const Json *op = member(&item, "op"), *name = member(&item, "name");
    if (!op || !name) damaged(file, ": a node without op and name: ", shown(&item));
    if (!op->is_string() || !name->is_string())
      damaged(file, ": node ", position, ": op and name must be texts: ", shown(&item));
    const std::string label = str(file, ": node '", text_of(*name), "'");
    const std::string with_op = str(label, " (", text_of(*op), ")");
    for (const char* key : {"param", "attr", "attrs"}) attributes(member(&item, key), key, with_op);
    const Json* inputs = member(&item, "inputs");
    if (inputs && !inputs->is_array()) damaged(with_op, ": 'inputs' must be a list");
    const size_t count = inputs ? inputs->size() : 0;
    if (text_of(*op) == "null" && count > 0)
      damaged(label, ": a variable must have 0 inputs, got ", count);
    for (size_t i = 0; i < count; ++i) {
      // Requires inputs to come before their users, so that a graph has no cycles.
      const Json& reference = (*inputs)[i];
      const bool has_first = reference.is_array() && !reference.empty();
      check_reference(
          reference, position,
          str(with_op, " has input ", shown(has_first ? &reference.front() : &reference)),
          "not before it");
    }
    const Json* parts = member(&item, "subgraphs");
    if (!parts) return;
    if (!parts->is_array()) damaged(with_op, ": 'subgraphs' must be a list");
    for (const Json& part : items_of(*parts)) graph(part, label, depth + 1);
  }

  static void attributes(const Json* attrs, const char* key, const std::string& label) {
    if (!attrs) return;
    bool fits = attrs->is_object();
    for (const Json& value : *attrs) fits &= value.is_primitive() && !value.is_null();
    if (!fits) damaged(label, ": '", key, "' must map names to texts");
  }

  static void version(const Json* attrs, const std::string& label) {
    const Json* version = attrs && attrs->is_object() ? member(attrs, "mxnet_version") : attrs;
    if (!version) return;
    if (!version->is_array() || version->size() != 2 || !is_integer((*version)[1]))
      damaged(label, ": 'mxnet_version' must be [\"int\", 10901], got ", shown(version));
  }

  size_t count_ = 0;
};

// -- changes of old files ------------------------------------------------------------------------

struct Reference {
  size_t node;
  int output;
};
struct Item {
  std::string op, name;
  Attributes attrs;
  std::vector<Reference> inputs;
  const Json* subgraphs = nullptr;
};
struct File {
  std::vector<Item> nodes;
  std::vector<Reference> heads;
};

std::vector<Reference> references(const Json* list) {
  std::vector<Reference> result;
  if (list)
    for (const Json& reference : items_of(*list))
      result.push_back({reference[0].get<size_t>(), reference[1].get<int>()});
  return result;
}

std::string attribute_text(const Json& value) {
  if (value.is_string()) return text_of(value);
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.dump();
}

const OpSchema* schema_of(const std::string& op) { return ops().find(engine_name(op)); }

// Returns MAJOR * 10000 + MINOR * 100 + PATCH of the MXNet version that wrote the file, or 800 if
// the version is unknown.
int64_t version_of(const Json* attrs) {
  const Json* version = member(attrs, "mxnet_version");
  return version ? (*version)[1].get<int64_t>() : 800;
}

Item read_item(const Json& node) {
  Item item{text_of(node.at("op")), text_of(node.at("name")), {}, {}, member(&node, "subgraphs")};
  if (item.op != "null" && schema_of(item.op)) item.op = file_name(item.op);
  // Up to version 0.8, files had parameters in `param` and attributes in `attr`. From 0.9 to 0.11,
  // both were in `attr`.
  for (const char* key : {"param", "attr", "attrs"})
    if (const Json* attrs = member(&node, key))
      for (const auto& [name, value] : attrs->get_ref<const Json::object_t&>())
        item.attrs[name] = attribute_text(value);
  item.inputs = references(member(&node, "inputs"));
  return item;
}

// Renames lr_mult to __lr_mult__. Moves weight_lr_mult of an operator to the variable of its
// weight.
void hide_attributes(Item& item, std::vector<Item>& nodes) {
  const OpSchema* op = item.op == "null" ? nullptr : schema_of(item.op);
  const Attributes old = item.attrs;
  for (const auto& [key, text] : old) {
    if (is_hidden_key(key)) {
      item.attrs.erase(key);
      item.attrs[hidden_key(key)] = text;
      continue;
    }
    const auto moved = op ? input_attribute(key) : std::nullopt;
    if (!moved) continue;
    item.attrs.erase(key);
    const auto input = std::find(op->inputs.begin(), op->inputs.end(), moved->input);
    const auto at = static_cast<size_t>(input - op->inputs.begin());
    if (input == op->inputs.end() || at >= item.inputs.size()) continue;
    if (Item& target = nodes[item.inputs[at].node]; target.op == "null")
      target.attrs[moved->key] = text;
  }
}

// Adds the auxiliary variables that files before 0.9 omit, such as bn0_moving_mean.
void add_missing_variables(File& file) {
  std::vector<Item> result;
  std::vector<size_t> moved;
  const auto move_all = [&](std::vector<Reference>& list) {
    for (Reference& reference : list) reference.node = moved[reference.node];
  };
  for (Item& item : file.nodes) {
    move_all(item.inputs);
    const OpSchema* op = item.op == "null" ? nullptr : schema_of(item.op);
    if (op && !op->variadic && !op->mutated_inputs.empty()) {
      for (size_t i = item.inputs.size(); i < op->inputs.size(); ++i) {
        const std::string& name = op->inputs[i];
        item.inputs.push_back({result.size(), 0});
        result.push_back({"null",
                          item.name + "_" + name,
                          variable_attrs(item.op, name, item.attrs),
                          {},
                          nullptr});
      }
    }
    moved.push_back(result.size());
    result.push_back(std::move(item));
  }
  move_all(file.heads);
  file.nodes = std::move(result);
}

// Replaces 0 by -1 for unknown dimensions of a variable's shape, as in NumPy shapes.
void write_unknown_as_negative(Attributes& attrs, const std::string& name) {
  const auto found = attrs.find("__shape__");
  if (found == attrs.end()) return;
  const Shape shape = parse_shape(found->second, UnknownExtent::kZero, name);
  found->second = shape.ndim() < 0 ? "None" : str(shape);
}

File upgraded(const Json& graph, const Json* attrs, bool np_shape) {
  File file;
  for (const Json& node : items_of(graph.at("nodes"))) file.nodes.push_back(read_item(node));
  file.heads = references(member(&graph, "heads"));
  for (Item& item : file.nodes) hide_attributes(item, file.nodes);
  const int64_t version = version_of(attrs);
  if (version < 900) add_missing_variables(file);
  if (np_shape && !member(attrs, "is_np_shape"))
    for (Item& item : file.nodes) write_unknown_as_negative(item.attrs, item.name);
  if (version < 905)
    for (Item& item : file.nodes)
      if (item.op == "argmax" || item.op == "argmin")
        if (const auto axis = item.attrs.find("axis");
            axis != item.attrs.end() && axis->second == "-1")
          item.attrs.erase(axis);
  return file;
}

// -- nodes ---------------------------------------------------------------------------------------

void check_output(const Node& node, int output, const std::string& label) {
  if (output >= node.num_outputs())
    damaged(label, ": output ", output, " of node '", node.name(), "' (",
            node.is_variable() ? "a variable" : node.op(), "), which has ", node.num_outputs());
}

// Checks that the call has the number of inputs that the operator needs with these parameters.
void check_arity(const Call& call, size_t given, const std::string& label) {
  const int wanted = call.num_inputs();
  if (static_cast<int>(given) == wanted || (wanted < 0 && given > 0)) return;
  std::string names;
  for (int i = 0; i < wanted; ++i) names.append(i ? ", " : "").append(call.argument(i));
  const std::string expected = wanted > 0    ? str(wanted, " (", names, ")")
                               : wanted == 0 ? "0"
                                             : "at least 1";
  damaged(label, ": the number of inputs of ", call.file_op, " must be ", expected, ", got ",
          given);
}

class Builder {
 public:
  Builder(const FileHooks& hooks, const Json* attrs)
      : hooks_(hooks), attrs_(attrs), is_numpy_(member(attrs, "is_np_shape")) {}

  LoadedGraph graph(const Json& json, const std::string& source) const {
    File file = upgraded(json, attrs_, hooks_.np_shape);
    std::vector<NodeRef> nodes;
    LoadedGraph result;
    const auto entry = [&](const Reference& reference, const std::string& label) -> NodeOutput {
      const NodeRef& node = nodes[reference.node];
      check_output(*node, reference.output, label);
      return {node, reference.output};
    };
    for (Item& item : file.nodes) {
      const std::string label = str(source, ": node '", item.name, "'");
      NodeOutputs inputs;
      for (const Reference& reference : item.inputs)
        inputs.push_back(entry(reference, str(label, " (", item.op, ") has as input")));
      nodes.push_back(node(item, std::move(inputs), label));
      if (nodes.back()->is_variable()) result.variables.push_back(nodes.back());
    }
    for (const Reference& head : file.heads)
      result.heads.push_back(entry(head, source + ": 'heads' names"));
    return result;
  }

 private:
  static NodeRef named(Call call, Item& item, NodeOutputs inputs) {
    call.name = std::move(item.name);
    return make_node(std::make_shared<const Call>(std::move(call)), std::move(inputs));
  }

  NodeRef node(Item& item, NodeOutputs inputs, const std::string& label) const {
    if (item.op == "null") return make_variable(std::move(item.name), std::move(item.attrs));
    try {
      if (is_control_flow(item.op)) {
        std::vector<LoadedGraph> graphs;
        if (item.subgraphs)
          for (const Json& part : items_of(*item.subgraphs)) graphs.push_back(graph(part, label));
        ControlFlowCall made =
            load_control_flow(item.op, item.attrs, inputs, std::move(graphs), label);
        return named(std::move(made.call), item, std::move(made.inputs));
      }
      translate_numpy(item.op, item.attrs, hooks_.knows && hooks_.knows(item.op));
      // 1.9.1 writes the names _linalg_det and _linalg_slogdet for _npi_ operators that return a
      // number for a single matrix.
      if (hooks_.knows && is_numpy_ && (item.op == "_linalg_det" || item.op == "_linalg_slogdet"))
        item.op.replace(0, std::string_view("_linalg_").size(), "_npi_");
      Call call = hooks_.make_call(item.op, item.attrs);
      check_arity(call, inputs.size(), label);
      return named(std::move(call), item, std::move(inputs));
    } catch (const FileError&) {
      throw;
    } catch (const Error& error) {
      throw Error(error.kind(), str(label, ": ", error.what()));
    }
  }

  const FileHooks& hooks_;
  const Json* attrs_;  // attributes of the whole file, because subgraphs have no version
  const bool is_numpy_;
};

}  // namespace

NodeOutputs load(const std::string& text, const std::string& source, const FileHooks& hooks) {
  const std::string label = "mx.sym.load: " + source;
  Json graph;
  try {
    graph = parse_json(text, label, kJsonDepth);
  } catch (const Error& error) {
    damaged(error.what());
  }
  Checker().graph(graph, label, 0);
  return Builder(hooks, member(&graph, "attrs")).graph(graph, label).heads;
}

}  // namespace mxlite::symbol
