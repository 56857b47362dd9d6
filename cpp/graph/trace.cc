#include "cpp/graph/trace.h"

#include <atomic>

namespace mxlite::graph {
namespace {
thread_local Trace* current_trace = nullptr;
std::atomic<uint64_t> num_traces{0};
}  // namespace

Trace::Trace(std::string name, Device device, bool training)
    : outer_(current_trace), serial_(++num_traces), device_(device) {
  graph_.name = std::move(name);
  graph_.training = training;
  current_trace = this;
}

Trace::~Trace() { current_trace = outer_; }

Trace* Trace::current() { return current_trace; }

void Trace::fail_read(const NDArray& array, const char* what) {
  fail(ErrorKind::kError, what, ": the array of shape ", array.shape(),
       " has no data while a hybridized forward is traced; move the read out of forward, or call "
       "net.hybridize(False)");
}

void Trace::fail_outside(const OpSchema& op, int input) {
  fail(ErrorKind::kError, op.name, ": ", op.input_name(input),
       " was made while a hybridized forward was traced and has no data; return it from forward "
       "instead of keeping it");
}

NDArrayRef Trace::make_array(ValueId value) {
  return NDArray::traced(graph_.spec(value), device_, make_ref<TraceValue>(serial_, value));
}

NDArrayRef Trace::add_input(const TensorSpec& spec) {
  Node node;
  node.kind = NodeKind::kInput;
  node.outputs = {spec};
  node.index = static_cast<int>(graph_.inputs.size());
  node.name = str("data", node.index);
  graph_.nodes.push_back(std::move(node));
  graph_.inputs.push_back(static_cast<int32_t>(graph_.nodes.size() - 1));
  return make_array({graph_.inputs.back(), 0});
}

NDArrayRef Trace::add_parameter(const TensorSpec& spec) {
  Node node;
  node.kind = NodeKind::kParameter;
  node.outputs = {spec};
  node.index = static_cast<int>(graph_.parameters.size());
  node.name = str("param", node.index);
  graph_.nodes.push_back(std::move(node));
  graph_.parameters.push_back(static_cast<int32_t>(graph_.nodes.size() - 1));
  return make_array({graph_.parameters.back(), 0});
}

ValueId Trace::value_of(const NDArrayRef& array) {
  if (const auto* info = static_cast<const TraceValue*>(array->trace().get())) {
    MX_CHECK_KIND(
        info->trace == serial_, ErrorKind::kError, graph_.name,
        ": an array that was made while another hybridized forward was traced has no "
        "data and cannot be used here; return it from that forward instead of keeping it");
    return info->value;
  }
  MX_CHECK_KIND(array->device() == device_, ErrorKind::kDevice, graph_.name,
                ": forward uses an array of shape ", array->shape(), " on ", array->device(),
                ", the inputs are on ", device_, "; copy one with as_in_context");
  for (const auto& [known, value] : captured_)
    if (known == array) return value;
  Node node;
  node.kind = NodeKind::kParameter;
  node.outputs = {array->spec()};
  node.index = static_cast<int>(graph_.parameters.size());
  node.name = str("captured", node.index);
  node.value = array;
  graph_.nodes.push_back(std::move(node));
  graph_.parameters.push_back(static_cast<int32_t>(graph_.nodes.size() - 1));
  const ValueId value{graph_.parameters.back(), 0};
  captured_.emplace_back(array, value);
  return value;
}

void Trace::check_mutation(const OpSchema& op, std::span<const ValueId> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    MX_CHECK_KIND(!op.mutates(static_cast<int>(i), graph_.training) ||
                      graph_.node(inputs[i]).kind == NodeKind::kParameter,
                  ErrorKind::kError, op.name, ": ", op.input_name(static_cast<int>(i)),
                  " is changed in place and must be a parameter or an array made outside of the "
                  "hybridized forward");
}

NDArrays Trace::record(const OpSchema& op, const ParamsRef& params,
                       std::span<const NDArrayRef> inputs, Device) {
  std::vector<ValueId> values;
  std::vector<TensorSpec> specs;
  bool known = true;
  for (const NDArrayRef& a : inputs) {
    values.push_back(value_of(a));
    specs.push_back(graph_.spec(values.back()));
    known &= specs.back().shape.is_known();
  }
  check_mutation(op, values);
  if (!known && op.complete) {
    op.complete(params.get(), specs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      graph_.nodes[static_cast<size_t>(values[i].node)]
          .outputs[static_cast<size_t>(values[i].output)] = specs[i];
      if (inputs[i]->is_traced()) inputs[i]->complete_spec(specs[i]);
    }
  }
  for (size_t i = 0; i < specs.size(); ++i)
    MX_CHECK_SHAPE(specs[i].shape.is_known(), op.name, ": the shape of ",
                   op.input_name(static_cast<int>(i)), " is not known: ", specs[i].shape,
                   "; give the layer its input size");
  const ValueId first = graph_.add_op(op, params, std::move(values),
                                      scope_.empty() ? std::string() : str(scope_, '_', op.name));
  NDArrays outputs;
  const size_t count = graph_.nodes[static_cast<size_t>(first.node)].outputs.size();
  for (size_t i = 0; i < count; ++i)
    outputs.push_back(make_array({first.node, static_cast<int32_t>(i)}));
  return outputs;
}

Graph Trace::finish(std::span<const NDArrayRef> outputs) {
  for (const NDArrayRef& a : outputs) graph_.outputs.push_back(value_of(a));
  return std::move(graph_);
}

const TensorSpec& Trace::parameter_spec(int i) const {
  return graph_.spec({graph_.parameters[static_cast<size_t>(i)], 0});
}

}  // namespace mxlite::graph
