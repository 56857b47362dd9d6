#include <map>
#include <tuple>

#include "cpp/graph/rewrite.h"
#include "cpp/ops/tensor/cast.h"
#include "cpp/symbol/control_flow.h"
#include "cpp/symbol/listing.h"
#include "cpp/symbol/passes/added_calls.h"
#include "cpp/symbol/passes/passes.h"

namespace mxlite::symbol {
namespace {

// Returns the target type of a cast, or nullopt for other calls.
KnownType cast_type(const Call& call) {
  if (!call.op || call.op->name != "amp_cast") return std::nullopt;
  return static_cast<const CastParams*>(call.params.get())->dtype;
}

// Replaces inputs of a call, in a symbol or in the graph of a symbol, by casts. `call_of(input)`
// returns the call that produces an input, and `add(op, attrs, inputs)` adds a cast.
template <class Value, class CallOf, class Add>
void add_casts(const amp::Rules& rules, const Call& call, std::vector<Value>& inputs,
               const CallOf& call_of, const Add& add) {
  std::vector<KnownType> types;
  for (const Value& input : inputs) {
    const KnownType type = cast_type(call_of(input));
    types.push_back(type == rules.target || type == DType::kFloat32 ? type : std::nullopt);
  }
  // Operators that run Python code have their parameters only as text.
  const amp::ParamText text =
      call.host() ? amp::text_of(call.attrs) : amp::text_of(*call.op, call.params.get());
  const amp::Casts casts = amp::find_casts(
      rules, *call.op, text, types, [&](int i) { return call.writes(i, /*training=*/true); });
  if (casts.type) {
    for (const int i : casts.inputs) {
      Value& input = inputs[static_cast<size_t>(i)];
      input = add("amp_cast", {{"dtype", dtype_name(*casts.type)}}, {input});
    }
  } else if (casts.inputs.size() > 1) {
    std::vector<Value> given;
    for (const int i : casts.inputs) given.push_back(inputs[static_cast<size_t>(i)]);
    const std::string count = std::to_string(given.size());
    Value output = add("amp_multicast", {{"num_outputs", count}}, std::move(given));
    for (const int i : casts.inputs) {
      inputs[static_cast<size_t>(i)] = output;
      ++output.output;
    }
  }
}

class Caster {
 public:
  Caster(const graph::Graph& graph, const PassOptions& options)
      : old_(graph), options_(options), rewrite_(graph) {
    MX_CHECK(options.precision, "mixed-precision: precision must be given, got None");
    for (const graph::Node& node : graph.nodes) names_.insert(node.name().text);
    for (const std::string& name : options.kept)
      MX_CHECK(names_.contains(name),
               "amp: excluded_sym_names must be names of the symbol's nodes, "
               "got '",
               name, "'");
  }

  graph::Graph run() {
    for (int32_t id = 0; id < static_cast<int32_t>(old_.nodes.size()); ++id) {
      const graph::Node& node = old_.node(id);
      if (node.op())
        add(id, node);
      else
        rewrite_.keep(id);
    }
    return rewrite_.finish();
  }

 private:
  void add(int32_t id, const graph::Node& node) {
    std::vector<graph::ValueId> inputs = rewrite_.map(node.inputs);
    // Loops and branches run in float32, because their bodies contain no casts.
    const bool is_kept = options_.kept.contains(node.name().text) || control_flow(*node.call);
    const amp::Rules kept{options_.precision->target, {{node.op(), AmpClass::kFloat32}}, {}};
    add_casts(
        is_kept ? kept : *options_.precision, *node.call, inputs,
        [&](graph::ValueId v) -> const Call& { return *made().node(v).call; },
        [&](const char* op, Attributes attrs, std::vector<graph::ValueId> values) {
          return cast(op, std::move(attrs), std::move(values));
        });
    graph::ValueId output = add_call(made(), node.call, std::move(inputs));
    for (; output.output < static_cast<int32_t>(node.outputs.size()); ++output.output)
      rewrite_.replace({id, output.output}, output);
  }

  // Casts each value at most once to a type.
  graph::ValueId cast(const std::string& op, Attributes attrs, std::vector<graph::ValueId> values) {
    const graph::ValueId value = values[0];
    const auto dtype = attrs.find("dtype");
    std::string name = value_name(made(), value) + "_" + op;
    if (dtype == attrs.end())
      return add_call(made(), named_call(op, attrs, free_name(names_, name)), values);
    graph::ValueId& known = casts_[{value.node, value.output, dtype->second}];
    if (known.node < 0) {
      name += "_" + dtype->second;
      known = add_call(made(), named_call(op, attrs, free_name(names_, name)), values);
    }
    return known;
  }

  graph::Graph& made() { return rewrite_.graph(); }

  const graph::Graph& old_;
  const PassOptions& options_;
  graph::Rewrite rewrite_;
  std::set<std::string> names_;
  std::map<std::tuple<int32_t, int32_t, std::string>, graph::ValueId> casts_;
};

}  // namespace

graph::Graph mixed_precision(const graph::Graph& graph, const PassOptions& options) {
  return Caster(graph, options).run();
}

void cast_inputs(Node& node, const std::function<std::string(const std::string& op)>& name) {
  const amp::Rules* rules = amp::current_rules();
  if (!rules || node.is_variable()) return;
  // Marks casts as part of a loop or branch body if the node belongs to this body.
  const auto body = node.call->attrs.find(kSubgraphName);
  add_casts(
      *rules, *node.call, node.inputs,
      [](const NodeOutput& entry) -> const Call& { return *entry.node->call; },
      [&](const char* op, Attributes attrs, NodeOutputs inputs) -> NodeOutput {
        if (body != node.call->attrs.end()) attrs.insert(*body);
        return {make_node(named_call(op, std::move(attrs), name(op)), std::move(inputs)), 0};
      });
}

graph::Graph lower_parameters(const graph::Graph& graph, const PassOptions& options) {
  MX_CHECK(options.precision, "lower-parameters: precision must be given, got None");
  const DType target = options.precision->target;
  graph::Graph result = graph;
  std::vector<uint8_t> is_cast(graph.nodes.size()), is_used(graph.nodes.size());
  for (const graph::Node& node : graph.nodes)
    for (const graph::ValueId v : node.inputs)
      (cast_type(*node.call) == target ? is_cast : is_used)[static_cast<size_t>(v.node)] = 1;
  for (const graph::ValueId v : graph.outputs) is_used[static_cast<size_t>(v.node)] = 1;
  for (const int32_t id : graph.inputs) {
    const auto at = static_cast<size_t>(id);
    if (!is_cast[at] || is_used[at] || options.kept.contains(graph.node(id).name().text)) continue;
    auto call = std::make_shared<Call>(*graph.node(id).call);
    call->attrs["__dtype__"] = std::to_string(static_cast<int>(target));
    result.nodes[at].call = std::move(call);
  }
  return result;
}

}  // namespace mxlite::symbol
