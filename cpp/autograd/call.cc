#include "cpp/autograd/call.h"

#include "cpp/autograd/mode.h"
#include "cpp/autograd/op_node.h"
#include "cpp/graph/trace.h"

namespace mxlite::autograd {
namespace {

void check_out_not_recorded(const OpSchema& op, std::span<const NDArrayRef> out) {
  for (const NDArrayRef& a : out) {
    const ArrayInfo* info = a ? info_of(*a) : nullptr;
    MX_CHECK_KIND(!info || (!info->node && info->req == GradReq::kNull), ErrorKind::kError, op.name,
                  ": the output array of shape ", a->shape(),
                  " is part of a recorded computation; in-place operations (+=, x[:] = ..., out=) "
                  "on such arrays are not possible inside autograd.record()");
  }
}

}  // namespace

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
  const bool record = mode.recording && !op.zero_gradient && needs_record(inputs);
  if (mode.recording && !options.out.empty()) check_out_not_recorded(op, options.out);
  NDArrays outputs = invoke(op, params, inputs, options);
  if (record) {
    auto node = make_ref<OpNode>(op, params, options.training, inputs, outputs);
    node->connect(inputs, outputs);
  }
  return outputs;
}

}  // namespace mxlite::autograd
