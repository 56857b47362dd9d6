#include "cpp/autograd/call.h"

#include <utility>

#include "cpp/autograd/mode.h"
#include "cpp/autograd/op_node.h"
#include "cpp/graph/trace.h"

namespace mxlite::autograd {
namespace {
thread_local CallObserver* current_observer = nullptr;
}  // namespace

ObserverScope::ObserverScope(CallObserver* observer)
    : outer_(std::exchange(current_observer, observer)) {}

ObserverScope::~ObserverScope() { current_observer = outer_; }

void check_writable(const char* what, const NDArrayRef& array) {
  if (!mode.recording) return;
  const ArrayInfo* info = info_of(*array);
  MX_CHECK_KIND(!info || (!info->node && info->req == GradReq::kNull), ErrorKind::kError, what,
                ": the array of shape ", array->shape(),
                " is part of a recorded computation; in-place operations (+=, x[:] = ..., out=) on "
                "such arrays are not possible inside autograd.record()");
}

void record_view(const OpSchema& op, const ParamsRef& params, const NDArrayRef& source,
                 const NDArrayRef& view) {
  if (current_observer) [[unlikely]]
    current_observer->called(op, params.get(), {&source, 1}, {&view, 1});
  if (!mode.recording || !needs_record({&source, 1})) return;
  auto node =
      make_ref<OpNode>(op, params, mode.training, std::span(&source, 1), std::span(&view, 1));
  node->connect({&source, 1}, {&view, 1});
}

NDArrays call(const OpSchema& op, const ParamsRef& params, std::span<const NDArrayRef> inputs,
              InvokeOptions options) {
  if (graph::Trace* trace = graph::Trace::current()) {
    for (const NDArrayRef& a : options.out)
      MX_CHECK_KIND(!a, ErrorKind::kNotSupported, op.name,
                    ": out= cannot be used inside a hybridized forward");
    return trace->record(op, params, inputs, options.device);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]->is_traced()) graph::Trace::fail_outside(op, static_cast<int>(i));

  options.training = mode.training;
  const bool record = mode.recording && needs_record(inputs);
  for (const NDArrayRef& a : options.out) check_writable(op.name.c_str(), a);
  NDArrays outputs = invoke(op, params, inputs, options);
  if (record) {
    auto node = make_ref<OpNode>(op, params, options.training, inputs, outputs);
    node->connect(inputs, outputs);
  }
  if (current_observer) [[unlikely]]
    current_observer->called(op, params.get(), inputs, outputs);
  return outputs;
}

NDArrayRef call_op(const char* op, std::initializer_list<NDArrayRef> inputs, Attrs attrs,
                   Device device, std::span<const NDArrayRef> out) {
  const OpSchema& schema = ops().get(op);
  const ParamsRef params = schema.make_params_by_name(std::span(attrs.begin(), attrs.size()));
  return call(schema, params, std::span(inputs.begin(), inputs.size()),
              {.device = device, .out = out})[0];
}

}  // namespace mxlite::autograd
