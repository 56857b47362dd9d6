#include "cpp/graph/call.h"

#include "cpp/graph/host_op.h"
#include "cpp/ops/call_checks.h"

namespace mxlite::graph {

std::string NodeName::label() const { return origin.empty() ? text : text + " (" + origin + ")"; }

const HostOp* Call::host() const { return op ? host_op(*op, params) : nullptr; }

const SymbolRules& Call::traits() const { return op->symbol_traits(file_op); }

std::string Call::error_text(const std::string& error) const {
  const std::string line = name.origin.empty() ? "" : "\n    composed at " + name.origin;
  return str("Error in operator ", name.text, ": ", error, line);
}

int Call::num_inputs() const {
  if (const HostOp* own = host()) return own->num_inputs();
  return op->variadic ? -1 : op->count_inputs(params.get());
}

int Call::num_outputs(int count) const {
  if (const HostOp* own = host()) return own->num_outputs(count);
  return op->count_visible_outputs(params.get(), count);
}

int Call::total_outputs(int count) const {
  if (const HostOp* own = host()) return own->num_outputs(count);
  if (traits().total_outputs) return traits().total_outputs(params.get(), num_outputs(count));
  return op->count_outputs(params.get(), count);
}

std::string Call::argument(int index) const {
  const HostOp* own = host();
  return own ? own->input_name(index) : op->input_name(index);
}

std::string Call::input_name(int index, int count) const {
  std::string label;
  if (op->variadic && !host()) {
    std::vector<std::string> names;
    if (traits().named_inputs) names = traits().named_inputs(params.get());
    const auto at = static_cast<size_t>(index);
    label = at < names.size() ? names[at] : str("arg", index);
  } else if (count > 1 || traits().names_single_input) {
    label = argument(index);
  } else {
    label = str("input", index);
  }
  return name.text + "_" + label;
}

std::string Call::output_name(int index, int count) const {
  const HostOp* own = host();
  const std::vector<std::string> names = own ? own->output_names() : traits().output_names;
  const auto at = static_cast<size_t>(index);
  if (at < names.size()) return name.text + "_" + names[at];
  return name.text + "_output" + (total_outputs(count) > 1 ? std::to_string(index) : "");
}

bool Call::writes(int input, bool training) const {
  const HostOp* own = host();
  return own ? own->writes(input) : op->mutates(input, training);
}

std::vector<int> Call::written(int count) const {
  if (const HostOp* own = host()) return own->written(count);
  std::vector<int> result;
  for (int i = 0; i < count; ++i)
    if (op->mutates(i, /*training=*/true)) result.push_back(i);
  return result;
}

std::vector<int> Call::states(int count) const {
  const std::vector<int>& read = traits().read_states;
  return read.empty() ? written(count) : read;
}

bool Call::completes() const { return op->complete != nullptr; }

void Call::complete(std::span<TensorSpec> inputs) const {
  check_input_count(*op, params.get(), inputs.size());
  if (op->complete) op->complete(params.get(), inputs);
}

Specs Call::infer(std::span<const TensorSpec> inputs) const {
  if (const HostOp* own = host()) return own->infer(inputs);
  return infer_outputs(*op, params.get(), inputs);
}

void Call::fill_types(KnownTypes in, KnownTypes out) const {
  const HostOp* own = host();
  if (own && own->fill_types(in, out)) return;
  mxlite::fill_types(own ? nullptr : op, traits(), params.get(), in, out);
}

}  // namespace mxlite::graph
