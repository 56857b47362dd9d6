#include "cpp/autograd/call.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cpp/autograd/anomaly.h"
#include "cpp/autograd/mode.h"
#include "cpp/autograd/op_node.h"
#include "cpp/engine/write_line.h"
#include "cpp/graph/cached_graph.h"
#include "cpp/graph/trace.h"
#include "cpp/ops/amp.h"
#include "cpp/ops/numpy/promotion.h"

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
  MX_CHECK_KIND(
      !info || (!info->node && info->req == GradReq::kNull), ErrorKind::kError, what,
      ": the array of shape ", array->shape(),
      " is part of a recorded computation. Inplace operations (+=, -=, x[:]=, etc) are not "
      "supported when recording with autograd");
}

void check_traced_training(const std::string& op) {
  if (mode.training != graph::Trace::current()->training())
    throw graph::DynamicShapeError(
        str(op, ": the training mode must be that of the hybridized forward, got ", mode.training));
}

NDArrays without_gradient_if_paused(NDArrays outputs) {
  graph::Trace* const trace = graph::Trace::current();
  if (mode.recording || !trace->recording()) return outputs;
  static const OpSchema& block = ops().get("BlockGrad");
  for (NDArrayRef& output : outputs)
    output = trace->record(block, block.default_params, {&output, 1}, {})[0];
  return outputs;
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

namespace {

// Adds a call to the trace.
NDArrays call_in_trace(graph::Trace& trace, const OpSchema& op, const ParamsRef& params,
                       std::span<const NDArrayRef> inputs, const InvokeOptions& options) {
  if (std::ranges::any_of(options.out, [](const NDArrayRef& a) { return static_cast<bool>(a); }))
    throw graph::TracedArrayError(
        str(op.name, ": out= must not be used inside a hybridized forward"));
  if (op.training_dependent) check_traced_training(op.name);
  return without_gradient_if_paused(trace.record(op, params, inputs, options.origin));
}

// Returns the inputs for the tape: copies of those that the call overwrites, because gradients read
// the values that the call has read.
NDArrays inputs_to_record(std::span<const NDArrayRef> inputs, std::span<const NDArrayRef> out) {
  NDArrays result(inputs.begin(), inputs.end());
  for (NDArrayRef& input : result)
    if (std::ranges::any_of(out, [&](const NDArrayRef& a) {
          return a && input && a->storage() && a->storage() == input->storage();
        }))
      input = call_op("_copy", {input});
  return result;
}

NDArrays call_as_given(const OpSchema& op, const ParamsRef& params,
                       std::span<const NDArrayRef> inputs, InvokeOptions options) {
  if (graph::Trace* trace = graph::Trace::current())
    return call_in_trace(*trace, op, params, inputs, options);
  bool numpy = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->is_traced()) graph::Trace::fail_outside(op, static_cast<int>(i));
    numpy |= inputs[i]->is_numpy();
  }

  options.training = mode.training;
  const bool record = mode.recording && needs_record(inputs);
  std::optional<engine::WriteLine> write_line;
  if (!options.out.empty()) write_line.emplace(options.origin);
  for (const NDArrayRef& a : options.out) check_writable(op.name.c_str(), a);
  NDArrays kept;
  if (record && !options.out.empty()) kept = inputs_to_record(inputs, options.out);
  NDArrays outputs = invoke(op, params, inputs, options);
  if (numpy && options.out.empty()) [[unlikely]]
    for (const NDArrayRef& output : outputs) output->set_numpy(true);
  if (record) {
    const std::span<const NDArrayRef> read = kept.empty() ? inputs : std::span(kept);
    auto node = make_ref<OpNode>(op, params, options.training, read, outputs);
    node->origin = options.origin;
    node->connect(read, outputs);
  }
  if (anomaly_checks.load(std::memory_order_relaxed)) [[unlikely]] {
    const OpNode* differentiated = OpNode::in_backward();
    const OpSchema* forward = differentiated ? &differentiated->op() : nullptr;
    const int visible = op.count_visible_outputs(params.get(), static_cast<int>(inputs.size()));
    check_anomaly(op, params.get(), inputs, std::span(outputs).first(static_cast<size_t>(visible)),
                  {options.origin, forward, forward ? differentiated->origin : engine::Origin{}});
  }
  if (current_observer) [[unlikely]]
    current_observer->called(op, params.get(), inputs, outputs);
  return outputs;
}

// Applies mixed precision to the inputs. The casts are separate calls, which are recorded like all
// other calls.
NDArrays cast_inputs(const amp::Rules& rules, const OpSchema& op, const void* params,
                     std::span<const NDArrayRef> inputs) {
  NDArrays result(inputs.begin(), inputs.end());
  SmallVector<KnownType, 4> types;
  for (const NDArrayRef& a : inputs) types.push_back(a->dtype());
  const amp::Casts casts =
      amp::find_casts(rules, op, amp::text_of(op, params), {types.data(), types.size()},
                      [&](int i) { return op.mutates(i, /*training=*/true); });
  for (const int i : casts.inputs) {
    NDArrayRef& input = result[static_cast<size_t>(i)];
    input = call_op("amp_cast", {input}, {{"dtype", *casts.type}});
  }
  return result;
}

// Returns whether numpy mode may cast inputs of a call whose operator has traits for numpy mode. No
// operator casts floats if all of them have the same dtype.
bool may_promote(std::span<const NDArrayRef> inputs) {
  if (!graph::any_numpy(inputs)) return false;
  const DType first = inputs[0]->dtype();
  return !is_floating(first) || std::ranges::any_of(inputs, [&](const NDArrayRef& input) {
    return input->dtype() != first;
  });
}

// Returns inputs cast to their common dtype, or an empty list if no input needs a cast.
NDArrays cast_to_common_dtype(const OpSchema& op, const void* params,
                              std::span<const NDArrayRef> inputs) {
  NDArrays result;
  const std::optional<DType> common = numpy_input_dtype(op, params, inputs);
  const auto has_it = [&](const NDArrayRef& input) { return input->dtype() == *common; };
  if (!common || std::ranges::all_of(inputs, has_it)) return result;
  for (const NDArrayRef& input : inputs)
    result.push_back(has_it(input) ? input : call_op("Cast", {input}, {{"dtype", *common}}));
  return result;
}

[[gnu::always_inline]] inline NDArrays call_with_amp(const OpSchema& op, const ParamsRef& params,
                                                     std::span<const NDArrayRef> inputs,
                                                     const InvokeOptions& options) {
  if (const amp::Rules* rules = amp::current_rules()) [[unlikely]] {
    const NDArrays cast = cast_inputs(*rules, op, params.get(), inputs);
    const bool eager = !graph::Trace::current();
    return call_as_given(op, eager ? amp::scaled_params(op, params) : params, cast, options);
  }
  return call_as_given(op, params, inputs, options);
}

}  // namespace

NDArrays promoted_inputs(const OpSchema& op, const void* params,
                         std::span<const NDArrayRef> inputs) {
  return op.numpy && may_promote(inputs) ? cast_to_common_dtype(op, params, inputs) : NDArrays();
}

NDArrays call(const OpSchema& op, const ParamsRef& params, std::span<const NDArrayRef> inputs,
              InvokeOptions options) {
  if (op.numpy && may_promote(inputs)) [[unlikely]] {
    const NDArrays promoted = cast_to_common_dtype(op, params.get(), inputs);
    if (!promoted.empty()) return call_with_amp(op, params, promoted, options);
  }
  return call_with_amp(op, params, inputs, options);
}

NDArrayRef call_op(const char* op, std::initializer_list<NDArrayRef> inputs, Attrs attrs,
                   Device device, std::span<const NDArrayRef> out) {
  const OpSchema& schema = ops().get(op);
  const ParamsRef params = schema.make_params_by_name(std::span(attrs.begin(), attrs.size()));
  return call(schema, params, std::span(inputs.begin(), inputs.size()),
              {.device = device, .out = out})[0];
}

}  // namespace mxlite::autograd
