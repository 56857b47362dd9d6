#include "cpp/ops/collective/run.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "cpp/ndarray/copy.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::collective {
namespace {

// The map is filled while the operators are registered.
std::unordered_map<const OpSchema*, TermsFn>& terms_by_op() {
  static auto& map = *new std::unordered_map<const OpSchema*, TermsFn>;
  return map;
}

// Name of the kernels of all collectives. Its address identifies collective operators.
constexpr char kAlone[] = "alone";

// In a group of one rank, every collective returns its input.
void run_alone(KernelContext& ctx, const void*, Inputs in, Outputs out) {
  MX_CHECK_KIND(!running_processes(), ErrorKind::kNotSupported,
                "a collective operator was called inside a kernel while a job of several processes "
                "runs");
  if (out[0].bytes() == 0) return;
  if (ctx.stream)
    ctx.stream->copy(out[0].data, in[0].data, out[0].bytes());
  else
    std::memcpy(out[0].data, in[0].data, out[0].bytes());
}

// Returns the array in contiguous form on a device; copies it if necessary.
NDArrayRef contiguous_on(Device device, const NDArrayRef& array) {
  if (array->device() == device) return contiguous(array);
  const NDArrayRef copy = NDArray::empty(array->spec(), device);
  copy_to(array, copy);
  return copy;
}

int64_t product(const Shape& shape, int begin, int end) {
  int64_t n = 1;
  for (int d = begin; d < end; ++d) n *= shape[d];
  return n;
}

// Returns a view of a contiguous array that is divided along an axis. In the view, the rank is the
// first axis.
NDArrayRef by_rank(const NDArrayRef& array, int axis, int64_t ranks) {
  const Shape& shape = array->shape();
  const int64_t outer = product(shape, 0, axis);
  const int64_t block = product(shape, axis, shape.ndim()) / ranks;
  Strides strides;
  for (const int64_t step : {block, ranks * block, int64_t{1}}) strides.push_back(step);
  return array->strided(Shape{ranks, outer, block}, strides, array->offset());
}

thread_local bool in_backward = false;
thread_local Position* position_in_graph = nullptr;
thread_local TracedCalls* traced_calls = nullptr;

bool is_message(const Terms& terms) {
  return terms.kind == Kind::kSend || terms.kind == Kind::kReceive;
}

// Marks the text, which ranks compare, so that a call in backward differs from the same call in
// forward. Does not mark messages, because a program may send a gradient that it has computed, nor
// kReduce, because its text contains "backward".
void mark_backward(Terms& terms) {
  if (in_backward && !position_in_graph && !is_message(terms) && terms.kind != Kind::kReduce)
    terms.text = "backward's " + terms.text;
}

// Fills in the terms that precede the first invalid term. To report a failure to the other ranks,
// these terms suffice.
void fill_what_is_valid(const OpSchema& op, const void* params, CollectiveCall& call) {
  try {
    terms_by_op().at (&op)(params, call.spec, call.terms);
  } catch (const Error&) {
    return;
  }
}

// Returns a call with all fields that valid arguments determine.
CollectiveCall refused_call(const OpSchema& op, const void* params, const TensorSpec& data) {
  CollectiveCall call;
  call.op = op.name.c_str();
  call.terms.text = op.name;
  call.spec = data;
  fill_what_is_valid(op, params, call);
  return call;
}

// Makes the call fail on the other ranks. Does nothing if no other rank can make the call.
void refuse(Processes& processes, CollectiveCall call, const std::string& reason) {
  if (call.terms.kind == Kind::kNone) return;
  const ProcessGroup group = processes.group(call.terms.process_set);
  const bool has_peer = group.has(call.terms.peer) && call.terms.peer != group.rank;
  if (group.has(group.rank) && (has_peer || !is_message(call.terms)))
    processes.refuse(std::move(call), reason);
}

bool splits(Kind kind) { return kind == Kind::kReduceScatter || kind == Kind::kAllToAll; }
bool joins(Kind kind) { return kind == Kind::kAllGather || kind == Kind::kAllToAll; }

}  // namespace

void add(OpRegistry& ops, OpSchema schema, TermsFn terms) {
  const OpSchema& op = ops.add(std::move(schema));
  Kernel kernel;
  kernel.name = kAlone;
  kernel.run = &run_alone;
  kernel.runs_when_empty = true;
  ops.add_kernel(op.name, DeviceType::kCPU, kernel);
  ops.add_kernel(op.name, DeviceType::kCUDA, kernel);
  terms_by_op()[&op] = terms;
}

bool is_collective(const Kernel& kernel) { return kernel.name == kAlone; }

bool is_collective(const OpSchema& op) {
  const auto& kernels = op.kernels[DeviceType::kCPU];
  return !kernels.empty() && is_collective(kernels[0]);
}

void check_out(const OpSchema& op, const TensorSpec& spec, const InvokeOptions& options) {
  const NDArrayRef out = options.out.empty() ? nullptr : options.out[0];
  MX_CHECK_SHAPE(!out || out->shape() == spec.shape, op.name, ": out must have shape ", spec.shape,
                 ", got ", out->shape());
}

Terms terms_of(const OpSchema& op, const void* params, const TensorSpec& data) {
  Terms terms;
  terms_by_op().at (&op)(params, data, terms);
  return terms;
}

bool runs_in_place(const Terms& terms, const TensorSpec& data, const TensorSpec& result) {
  if (is_message(terms)) return false;
  // Ranks whose blocks are not adjacent in an array need a copy of the array.
  const auto apart = [](const Shape& shape, int axis) {
    return shape.size() > 0 && product(shape, 0, axis) > 1;
  };
  return !(splits(terms.kind) && apart(data.shape, terms.split_axis)) &&
         !(joins(terms.kind) && apart(result.shape, terms.join_axis));
}

namespace {

// A call and the array for its result. `target` is a view of the result with the blocks of the
// ranks first; if this view is not contiguous, the call's output is copied into `target`.
struct Prepared {
  CollectiveCall call;
  NDArrayRef result, target;
};

Prepared prepare(Processes& processes, CollectiveCall call, const NDArrayRef& input,
                 const TensorSpec& spec, Device device) {
  const Kind kind = call.terms.kind;
  const int64_t ranks = processes.group(call.terms.process_set).size();
  const Device place = processes.place_of(kind, spec.dtype, device);
  if (kind != Kind::kReceive) {
    call.input = contiguous_on(place, input);
    if (splits(kind) && spec.shape.size() > 0)
      call.input = contiguous(by_rank(call.input, call.terms.split_axis, ranks));
  }
  // Other work on the stream for copies is short, so waiting for this stream costs little.
  const NDArrayRef result = NDArray::empty(spec, place, StreamKind::kCopyIn);
  NDArrayRef target = result;
  if (joins(kind) && spec.shape.size() > 0) target = by_rank(result, call.terms.join_axis, ranks);
  call.output =
      target->contiguous() ? result : NDArray::empty(target->spec(), place, StreamKind::kCopyIn);
  return {std::move(call), result, std::move(target)};
}

}  // namespace

NDArrays run(Processes& processes, const OpSchema& op, const void* params, const NDArrayRef& input,
             const TensorSpec& spec, const InvokeOptions& options) {
  CollectiveCall call;
  call.op = op.name.c_str();
  call.spec = input->spec();
  call.origin = options.origin;
  terms_by_op().at (&op)(params, call.spec, call.terms);
  const NDArrayRef out = options.out.empty() ? nullptr : options.out[0];
  if (call.terms.kind == Kind::kNone) {
    const NDArrayRef copy = out ? out : NDArray::empty(spec, options.device);
    copy_to(input, copy);
    return {copy};
  }
  mark_backward(call.terms);
  if (position_in_graph) call.terms.later = position_in_graph->later;
  Prepared prepared;
  try {
    prepared = prepare(processes, std::move(call), input, spec, options.device);
  } catch (const std::exception& error) {  // out of memory
    announce_failure(op, params, {&input, 1}, error.what());
    throw;
  }
  const NDArrayRef received = prepared.call.output;
  if (position_in_graph) position_in_graph->started = true;
  processes.start(std::move(prepared.call));
  NDArrayRef result = std::move(prepared.result);
  if (received != result) copy_to(received, prepared.target);
  if (!out) result = contiguous_on(options.device, result);
  if (!out) return {result};
  copy_to(result, out);
  return {out};
}

void announce_failure(const OpSchema& op, const void* params, std::span<const NDArrayRef> inputs,
                      const char* reason) noexcept {
  if (!is_collective(op) || inputs.size() != 1 || position_in_graph) return;
  try {
    Processes* processes = running_processes();
    if (!processes) return;
    CollectiveCall call = refused_call(op, params, inputs[0]->spec());
    mark_backward(call.terms);
    refuse(*processes, std::move(call), reason);
  } catch (const std::exception&) {
    // Either the process set does not exist, so no rank waits, or memory has run out and the other
    // ranks wait until the deadline.
  }
}

Channel channel_of(const Terms& terms) {
  if (!is_message(terms)) return {terms.process_set, Kind::kNone, 0};
  return {terms.process_set, terms.kind, terms.peer};
}

BackwardScope::BackwardScope() : outer_(std::exchange(in_backward, true)) {}
BackwardScope::~BackwardScope() { in_backward = outer_; }

PositionScope::PositionScope(Position& position) { position_in_graph = &position; }
PositionScope::~PositionScope() { position_in_graph = nullptr; }

void PlannedCalls::add(const OpSchema& op, ParamsRef params, const TensorSpec& data) {
  if (is_collective(op)) calls_.push_back({&op, std::move(params), data});
}

void PlannedCalls::give_up(const std::string& reason) const noexcept {
  if (calls_.empty()) return;
  try {
    Processes* processes = running_processes();
    if (!processes) return;
    std::vector<Channel> given_up;
    for (const Planned& planned : calls_) {
      CollectiveCall call = refused_call(*planned.op, planned.params.get(), planned.data);
      if (call.terms.kind == Kind::kNone) continue;
      const Channel channel = channel_of(call.terms);
      if (std::ranges::find(given_up, channel) != given_up.end()) continue;
      given_up.push_back(channel);
      call.terms.later = kGivenUp;
      refuse(*processes, std::move(call), reason);
    }
  } catch (const std::exception&) {
    // The error is ignored for the reasons given in announce_failure.
  }
}

TracedCalls::TracedCalls() : outer_(std::exchange(traced_calls, this)) {}
TracedCalls::~TracedCalls() { traced_calls = outer_; }

PlannedCalls& TracedCalls::kept() {
  thread_local PlannedCalls calls;
  return calls;
}

void note_traced(const OpSchema& op, const ParamsRef& params, const TensorSpec& data) {
  if (traced_calls) traced_calls->calls_.add(op, params, data);
}

void give_up_failed_trace(const std::string& reason) noexcept {
  const PlannedCalls calls = std::move(TracedCalls::kept());
  forget_failed_trace();
  calls.give_up(reason);
}

void forget_failed_trace() noexcept { TracedCalls::kept() = {}; }

std::string text_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "";
  }
}

}  // namespace mxlite::collective
