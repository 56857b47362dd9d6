#include "cpp/symbol/compose.h"

#include <algorithm>
#include <charconv>

#include "cpp/symbol/names.h"

namespace mxlite::symbol {
namespace {

// Splits a key such as weight_lr_mult or __weight_lr_mult__ into an input and its attribute.
std::optional<InputAttribute> attribute_of_input(const OpSchema& op, std::string_view key) {
  if (key.size() > 4 && key.starts_with("__") && key.ends_with("__"))
    key = key.substr(2, key.size() - 4);
  auto found = input_attribute(key);
  if (found && std::find(op.inputs.begin(), op.inputs.end(), found->input) == op.inputs.end())
    return std::nullopt;
  return found;
}

int given_count(const Attributes& attrs, const std::string& key) {
  const auto found = attrs.find(key);
  int count = 0;
  if (found != attrs.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    MX_CHECK(error == std::errc() && end == text.data() + text.size(), key,
             " must be a number of arrays, got '", text, "'");
    MX_CHECK(count <= 1 << 20, key, " must be at most ", 1 << 20, ", got ", count);
  }
  return count;
}

// Returns the names of a call's inputs. The names depend on the parameters: `no_bias` removes the
// bias and the ends of the bias's range, and `use_length` adds `length`.
std::vector<std::string> fixed_labels(const OpSchema& op, const Call& call, const Given& given) {
  const std::vector<AttrValue> values = op.params_values(call.params.get());
  const auto is_on = [&](const std::string& param, bool otherwise) {
    const int at = op.param_index(param);
    return at < 0 ? otherwise : attr_to_bool(values[static_cast<size_t>(at)]);
  };
  const auto is_bias = [](const std::string& label) { return label.find("bias") != label.npos; };
  const bool no_bias =
      is_on("no_bias", false) && std::ranges::none_of(given.inputs, [&](auto& one) {
        return is_bias(op.inputs[static_cast<size_t>(one.first)]);
      });
  std::vector<std::string> labels;
  for (const std::string& label : op.inputs)
    if (is_on("use_" + label, true) && !(no_bias && is_bias(label))) labels.push_back(label);
  // Drops the last inputs if the list is still too long, such as states of RNN that no parameter
  // switches on.
  const auto count = static_cast<size_t>(call.num_inputs());
  for (size_t i = labels.size(); i-- > 0 && labels.size() > count;)
    if (!is_on("use_" + labels[i], false)) labels.erase(labels.begin() + static_cast<int>(i));
  return labels;
}

// Returns the names of the node's inputs.
std::vector<std::string> labels_of(const OpSchema& op, const std::string& file_op, const Call& call,
                                   const Given& given) {
  if (!op.variadic) return fixed_labels(op, call, given);
  std::vector<std::string> labels;
  if (const SymbolRules& traits = op.symbol_traits(file_op); traits.named_inputs)
    labels = traits.named_inputs(call.params.get());
  const int last = given.inputs.empty() ? -1 : given.inputs.rbegin()->first;
  const int given_inputs =
      labels.empty() ? given_count(given.attrs, count_attribute(op, file_op)) : 0;
  const auto count = static_cast<size_t>(std::max(last + 1, given_inputs));
  MX_CHECK_KIND(!labels.empty() || count > 0, ErrorKind::kType, given.alias,
                "() needs at least one input or num_args");
  while (labels.size() < count) labels.push_back(str("arg", labels.size()));
  return labels;
}

// Returns the inputs by their index in `labels`, or unchanged if an input is not in `labels`.
std::map<int, NodeOutput> place(const OpSchema& op, const std::vector<std::string>& labels,
                                const std::map<int, NodeOutput>& inputs) {
  if (op.variadic) return inputs;
  std::map<int, NodeOutput> placed;
  for (const auto& [position, entry] : inputs) {
    const auto at = std::ranges::find(labels, op.inputs[static_cast<size_t>(position)]);
    if (at == labels.end()) return inputs;
    placed[static_cast<int>(at - labels.begin())] = entry;
  }
  return placed;
}

const std::string* initial_value(const std::string& file_op, const OpSchema& op,
                                 const std::string& label) {
  const auto& values = op.symbol_traits(file_op).input_init;
  const auto found = values.find(label);
  return found == values.end() ? nullptr : &found->second;
}

}  // namespace

std::string count_attribute(const OpSchema& op, const std::string& file_op) {
  const std::string& own = op.symbol_traits(file_op).count_attribute;
  return own.empty() ? "num_args" : own;
}

Call make_call(const std::string& file_op, Attributes attrs) {
  const OpSchema& op = ops().get_public(engine_name(file_op));
  const std::string count = count_attribute(op, file_op);
  std::vector<std::pair<std::string_view, AttrValue>> params;
  for (const auto& [key, text] : attrs)
    if (op.param_index(key) >= 0 || !(key.starts_with("__") || key == count))
      params.emplace_back(key, text);
  Call call;
  call.op = &op;
  call.params = op.make_params_by_name(params);
  call.file_op = file_op;
  call.attrs = std::move(attrs);
  return call;
}

std::vector<std::string> named_inputs(const OpSchema& op, const std::string& file_op,
                                      const Attributes& attrs) {
  const SymbolRules& traits = op.symbol_traits(file_op);
  if (!traits.named_inputs) return {};
  return traits.named_inputs(make_call(file_op, attrs).params.get());
}

Attributes variable_attrs(const std::string& file_op, const std::string& input, Attributes attrs) {
  const OpSchema& op = ops().get_public(engine_name(file_op));
  if (const std::string* init = initial_value(file_op, op, input)) attrs["__init__"] = *init;
  return attrs;
}

NodeRef compose(Given given, graph::NodeName name) {
  const std::string file_op = file_name(given.alias);
  const OpSchema& op = ops().get_public(engine_name(file_op));
  const std::string& count_key = op.symbol_traits(file_op).count_attribute;
  if (op.variadic && !given.inputs.empty() && !count_key.empty())
    given.attrs[count_key] = std::to_string(given.inputs.rbegin()->first + 1);

  Attributes own;
  std::map<std::string, Attributes> of_inputs;
  for (const auto& [key, text] : given.attrs) {
    if (const auto moved = attribute_of_input(op, key))
      of_inputs[moved->input][moved->key] = text;
    else
      own[key] = text;
  }
  auto call = std::make_shared<Call>(make_call(file_op, std::move(own)));
  const std::vector<std::string> labels = labels_of(op, file_op, *call, given);

  std::map<int, NodeOutput> taken = place(op, labels, given.inputs);
  if (!taken.empty() && taken.rbegin()->first >= static_cast<int>(labels.size())) {
    // Renumbers the inputs, because their positions also count inputs that the call does not have.
    MX_CHECK_KIND(taken.size() <= labels.size(), ErrorKind::kType, given.alias,
                  ": the number of inputs must be at most ", labels.size(),
                  " with these parameters, got ", taken.size());
    std::map<int, NodeOutput> closed;
    for (auto& [position, entry] : taken) closed[static_cast<int>(closed.size())] = entry;
    taken = std::move(closed);
  }
  NodeOutputs inputs;
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::string& label = labels[i];
    const auto found = taken.find(static_cast<int>(i));
    if (found == taken.end()) {
      Attributes attrs = call->attrs;
      for (const auto& [key, text] : of_inputs[label]) attrs[key] = text;
      inputs.push_back(
          {make_variable(name.text + "_" + label, variable_attrs(file_op, label, std::move(attrs))),
           0});
      continue;
    }
    Node& source = *found->second.node;
    const std::string* init = initial_value(file_op, op, label);
    if (init && source.is_variable() && !source.call->attrs.contains("__init__"))
      source.edit([&](Call& variable) { variable.attrs["__init__"] = *init; });
    inputs.push_back(found->second);
  }
  call->name = std::move(name);
  return make_node(std::move(call), std::move(inputs));
}

}  // namespace mxlite::symbol
