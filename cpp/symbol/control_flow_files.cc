#include "cpp/symbol/control_flow_files.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "cpp/symbol/compose.h"
#include "cpp/symbol/from_graph.h"

namespace mxlite::symbol {
namespace {

// -- writing -------------------------------------------------------------------------------------

std::string text_of(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += str(text.empty() ? "" : ", ", number);
  return str("[", text, "]");
}

// Returns the positions that the variables begin to end - 1 have in the file. Unused variables have
// the position -1.
std::string positions_in(const std::vector<int>& order, size_t begin, size_t end) {
  std::vector<int> positions;
  for (size_t i = begin; i < end; ++i) {
    const auto found = std::find(order.begin(), order.end(), static_cast<int>(i));
    positions.push_back(found == order.end() ? -1 : static_cast<int>(found - order.begin()));
  }
  return text_of(positions);
}

// Returns the operator's inputs that a subgraph gets, in the order that the subgraph's variables
// have in files.
std::string inputs_in_order(const Subgraph& graph) {
  std::vector<int> inputs;
  for (const int variable : graph.order())
    inputs.push_back(graph.inputs[static_cast<size_t>(variable)]);
  return text_of(inputs);
}

}  // namespace

ControlFlow::Saved Foreach::saved(const NodeOutputs&) const {
  const std::vector<int> order = body().order();
  const size_t first = num_data_ + num_states_;
  return {{{"in_data_locs", positions_in(order, 0, num_data_)},
           {"in_state_locs", positions_in(order, num_data_, first)},
           {"remain_locs", positions_in(order, first, body().variables.size())},
           {"num_out_data", std::to_string(output_count() - num_states_)}},
          {body().heads}};
}

ControlFlow::Saved WhileLoop::saved(const NodeOutputs&) const {
  return {{{"cond_input_locs", inputs_in_order(condition())},
           {"func_input_locs", inputs_in_order(body())},
           {"func_var_locs", positions_in(body().order(), 0, num_variables_)},
           {"max_iterations", std::to_string(max_iterations_)},
           {"num_out_data", std::to_string(num_step_outputs())}},
          {condition().heads, body().heads}};
}

ControlFlow::Saved Branch::saved(const NodeOutputs& inputs) const {
  const NodeOutput& predicate = inputs.at(0);
  const NodeRef variable = make_variable(predicate.node->output_name(predicate.output));
  Call copy = make_call("_copy", {});
  copy.name = variable->name() + "_copy";
  const NodeRef copied = make_node(std::make_shared<const Call>(std::move(copy)), {{variable, 0}});
  return {{{"cond_input_locs", "[0]"},
           {"then_input_locs", inputs_in_order(then())},
           {"else_input_locs", inputs_in_order(otherwise())}},
          {{{copied, 0}}, then().heads, otherwise().heads}};
}

ControlFlow::Saved saved_form(const Node& node) {
  const ControlFlow* flow = node.is_variable() ? nullptr : control_flow(*node.call);
  if (!flow) return {node.call->attrs, {}};
  ControlFlow::Saved saved = flow->saved(node.inputs);
  saved.attrs["num_args"] = std::to_string(saved.graphs.size() + node.inputs.size());
  saved.attrs["num_outputs"] = std::to_string(node.num_outputs());
  // Does not replace attributes that `saved` already has.
  saved.attrs.insert(node.call->attrs.begin(), node.call->attrs.end());
  return saved;
}

// -- reading -------------------------------------------------------------------------------------

namespace {

const std::map<std::string, size_t>& num_graphs() {
  static const auto* const made =
      new std::map<std::string, size_t>{{"_foreach", 1}, {"_while_loop", 2}, {"_cond", 3}};
  return *made;
}

int64_t integer_from(std::string_view text, const std::string& key) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const size_t end = std::min(text.find_last_not_of(' ') + 1, text.size());
  const std::string_view digits = text.substr(begin, end - begin);
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  MX_CHECK(error == std::errc() && stop == digits.data() + digits.size() && !digits.empty(), key,
           " must hold integers, got '", text.substr(0, 80), "'");
  return value;
}

const std::string& attribute(const Attributes& attrs, const std::string& key) {
  const auto found = attrs.find(key);
  MX_CHECK(found != attrs.end(), "the attribute ", key, " is missing");
  return found->second;
}

int64_t integer(const Attributes& attrs, const std::string& key) {
  return integer_from(attribute(attrs, key), key);
}

// Parses a list of positions below `count`. If `lowest` is -1, the list may contain -1, which means
// that a variable is not used.
std::vector<int> positions(const Attributes& attrs, const std::string& key, size_t count,
                           int64_t lowest = 0) {
  std::string_view text = attribute(attrs, key);
  const auto is_edge = [](char c) {
    return std::string_view("[]() ").find(c) != std::string::npos;
  };
  while (!text.empty() && is_edge(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_edge(text.back())) text.remove_suffix(1);
  std::vector<int> result;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (part.find_first_not_of(' ') == std::string_view::npos) continue;
    const int64_t position = integer_from(part, key);
    MX_CHECK(position >= lowest && position < static_cast<int64_t>(count), key,
             " must contain positions from ", lowest, " to ", static_cast<int64_t>(count) - 1,
             ", got ", position);
    result.push_back(static_cast<int>(position));
  }
  return result;
}

NodeRef unused_variable(size_t i) { return make_variable(str("unused", i)); }

// Throws unless each variable that the outputs use gets exactly one input and no other variable
// gets more than one input.
void check_variables(const Subgraph& graph) {
  std::unordered_set<const Node*> given;
  for (const NodeRef& variable : graph.variables)
    MX_CHECK(given.insert(variable.get()).second, "the variable '", variable->name(),
             "' of a subgraph gets two inputs");
  for (const NodeRef& node : topological_order(graph.heads))
    MX_CHECK(!node->is_variable() || given.contains(node.get()), "the variable '", node->name(),
             "' of a subgraph gets no input");
}

Subgraph checked(Subgraph graph) {
  check_variables(graph);
  return graph;
}

ControlFlowCall load_foreach(const Attributes& attrs, const NodeOutputs& inputs,
                             std::vector<LoadedGraph>& graphs) {
  LoadedGraph& body = graphs[0];
  const size_t count = body.variables.size();
  std::vector<int> places = positions(attrs, "in_data_locs", count, -1);
  const size_t num_data = places.size();
  const std::vector<int> states = positions(attrs, "in_state_locs", count, -1);
  const std::vector<int> remaining = positions(attrs, "remain_locs", count, -1);
  places.insert(places.end(), states.begin(), states.end());
  places.insert(places.end(), remaining.begin(), remaining.end());
  MX_CHECK(places.size() == inputs.size(),
           "in_data_locs, in_state_locs and remain_locs must have one position per input, ",
           inputs.size(), ", got ", places.size());
  MX_CHECK(num_data > 0, "in_data_locs must have at least 1 array to loop over, got none");
  MX_CHECK(body.heads.size() >= states.size(),
           "the subgraph must have at least one output per state, ", states.size(), ", got ",
           body.heads.size());
  Subgraph graph{std::move(body.heads), {}, std::vector<int>(places.size())};
  std::iota(graph.inputs.begin(), graph.inputs.end(), 0);
  for (size_t i = 0; i < places.size(); ++i)
    graph.variables.push_back(places[i] < 0 ? unused_variable(i)
                                            : body.variables[static_cast<size_t>(places[i])]);
  return call_of("_foreach",
                 make_ref<const Foreach>(checked(std::move(graph)), num_data, states.size()),
                 inputs);
}

// Creates a subgraph of a while loop. `own` has the index of the operator's input for each
// variable. `loop` has the index of its loop variable, or -1. `places` has the index of the
// operator's input for each loop variable.
Subgraph loop_graph(LoadedGraph& part, const std::vector<int>& own, const std::vector<int>& loop,
                    const std::vector<int>& places) {
  Subgraph graph{std::move(part.heads), {}, places};
  for (size_t i = 0; i < places.size(); ++i) graph.variables.push_back(unused_variable(i));
  for (size_t at = 0; at < own.size(); ++at) {
    if (loop[at] >= 0) {
      graph.variables[static_cast<size_t>(loop[at])] = part.variables[at];
    } else {
      graph.variables.push_back(part.variables[at]);
      graph.inputs.push_back(own[at]);
    }
  }
  return checked(std::move(graph));
}

ControlFlowCall load_while(const Attributes& attrs, const NodeOutputs& inputs,
                           std::vector<LoadedGraph>& graphs) {
  const int64_t num_outputs = integer(attrs, "num_outputs");
  const int64_t num_out_data = integer(attrs, "num_out_data");
  const std::vector<int> of_condition = positions(attrs, "cond_input_locs", inputs.size());
  const std::vector<int> of_body = positions(attrs, "func_input_locs", inputs.size());
  const std::vector<int> variables = positions(attrs, "func_var_locs", of_body.size(), -1);
  const size_t count = variables.size();
  MX_CHECK(count > 0 && count <= inputs.size(), "func_var_locs must have 1 to ", inputs.size(),
           " positions, got ", count);
  MX_CHECK(num_outputs == static_cast<int64_t>(graphs[1].heads.size()),
           "num_outputs must be the number of the body's outputs, ", graphs[1].heads.size(),
           ", got ", num_outputs);
  MX_CHECK(num_out_data >= 0, "num_out_data must be at least 0, got ", num_out_data);
  MX_CHECK(num_outputs - num_out_data == static_cast<int64_t>(count),
           "num_out_data must be num_outputs minus the number of loop variables, ", num_outputs,
           " - ", count, ", got ", num_out_data);
  MX_CHECK(graphs[0].heads.size() == 1, "the condition must have 1 output, got ",
           graphs[0].heads.size());
  for (size_t i = 0; i < 2; ++i) {
    const size_t own = (i == 0 ? of_condition : of_body).size();
    MX_CHECK(graphs[i].variables.size() >= own, "a subgraph must have at least ", own,
             " variables, got ", graphs[i].variables.size());
  }
  // If the body does not use a loop variable, the file has no position for this variable. The
  // variable's index is used instead.
  std::vector<int> places;
  std::vector<int> loop_of_body(of_body.size(), -1), loop_of_condition(of_condition.size(), -1);
  for (size_t i = 0; i < count; ++i) {
    const int at = variables[i];
    places.push_back(at < 0 ? static_cast<int>(i) : of_body[static_cast<size_t>(at)]);
    if (at < 0) continue;
    int& loop = loop_of_body[static_cast<size_t>(at)];
    MX_CHECK(loop < 0, "func_var_locs must contain distinct positions, got ", at, " twice");
    loop = static_cast<int>(i);
  }
  for (size_t at = 0; at < of_condition.size(); ++at) {
    const auto place = std::find(places.begin(), places.end(), of_condition[at]);
    if (place != places.end()) loop_of_condition[at] = static_cast<int>(place - places.begin());
  }
  const int64_t limit = integer(attrs, "max_iterations");
  MX_CHECK(limit >= 1, "max_iterations must be at least 1, got ", limit);
  Subgraph condition = loop_graph(graphs[0], of_condition, loop_of_condition, places);
  Subgraph body = loop_graph(graphs[1], of_body, loop_of_body, places);
  return call_of(
      "_while_loop",
      make_ref<const WhileLoop>(std::move(condition), std::move(body), inputs.size(), count, limit),
      inputs);
}

// Inlines a subgraph into the surrounding graph and returns its output.
NodeOutput inlined_head(const LoadedGraph& graph, const NodeOutputs& given) {
  std::unordered_map<const Node*, NodeOutput> values;
  for (size_t i = 0; i < given.size(); ++i) values[graph.variables[i].get()] = given[i];
  NodeOutput head = graph.heads[0];
  while (!head.node->is_variable() && head.node->op() == "_copy") head = head.node->inputs.at(0);
  return with_leaves({head}, [&](const NodeRef& variable) { return values.at(variable.get()); })[0];
}

ControlFlowCall load_cond(const Attributes& attrs, const NodeOutputs& inputs,
                          std::vector<LoadedGraph>& graphs) {
  std::vector<Subgraph> parts;
  const char* const keys[] = {"cond_input_locs", "then_input_locs", "else_input_locs"};
  for (size_t i = 0; i < graphs.size(); ++i) {
    std::vector<int> own = positions(attrs, keys[i], inputs.size());
    std::vector<NodeRef>& variables = graphs[i].variables;
    MX_CHECK(variables.size() >= own.size(), "a subgraph must have at least ", own.size(),
             " variables, got ", variables.size());
    variables.resize(own.size());
    parts.push_back(checked({graphs[i].heads, variables, std::move(own)}));
  }
  MX_CHECK(parts[0].heads.size() == 1, "the condition must have 1 output, got ",
           parts[0].heads.size());
  MX_CHECK(parts[1].heads.size() == parts[2].heads.size(),
           "the branches must have the same number of outputs, got ", parts[1].heads.size(),
           " and ", parts[2].heads.size());
  NodeOutputs of_condition;
  for (const int at : parts[0].inputs) of_condition.push_back(inputs[static_cast<size_t>(at)]);
  const NodeOutput predicate = inlined_head(graphs[0], of_condition);
  NodeOutputs all = inputs;
  if (parts[0].inputs != std::vector{0} || predicate != inputs[0]) {
    all.insert(all.begin(), predicate);
    for (size_t i = 1; i < parts.size(); ++i)
      for (int& input : parts[i].inputs) ++input;
  }
  const size_t count = all.size();
  return call_of("_cond", make_ref<const Branch>(std::move(parts[1]), std::move(parts[2]), count),
                 std::move(all));
}

// Returns whether load_control_flow uses this attribute to create the call.
bool is_own_attribute(const std::string& key) {
  return key == "num_args" || key == "num_outputs" || key == "num_out_data" ||
         key == "max_iterations" || key.ends_with("_locs");
}

}  // namespace

bool is_control_flow(const std::string& op) { return num_graphs().contains(op); }

ControlFlowCall load_control_flow(const std::string& op, const Attributes& attrs,
                                  const NodeOutputs& inputs, std::vector<LoadedGraph> graphs,
                                  const std::string& label) {
  const size_t expected = num_graphs().at(op);
  if (graphs.size() != expected)
    throw FileError(
        str(label, ": ", op, " must have ", expected, " subgraphs, got ", graphs.size()));
  try {
    const auto make = op == "_foreach" ? load_foreach : op == "_cond" ? load_cond : load_while;
    ControlFlowCall made = make(attrs, inputs, graphs);
    for (const auto& [key, text] : attrs)
      if (!is_own_attribute(key)) made.call.attrs[key] = text;
    return made;
  } catch (const Error& error) {
    throw FileError(str(label, ": the subgraphs of ", op, " are damaged: ", error.what()));
  }
}

}  // namespace mxlite::symbol
