// Runs the segments of a graph in order. Either calls each segment, or pushes one task that runs
// all segments.
#include <algorithm>

#include "cpp/engine/written.h"
#include "cpp/graph/run/joined_task.h"
#include "cpp/ops/collective/run.h"

namespace mxlite::graph {
namespace {

constexpr size_t kInlineBytes = 64 << 10;  // bytes of a call's operands, as in invoke.cc

using Arrays = std::vector<NDArrayRef>;

// Call while handling the exception that ended a run on this rank. Makes the collectives in segment
// `first` and all later segments fail on the other ranks with this exception.
void give_up_calls(const SegmentedGraph& graph, size_t first) noexcept {
  try {
    collective::PlannedCalls calls;
    for (size_t i = first; i < graph.segments.size(); ++i)
      if (const Node* node = graph.segments[i].collective)
        calls.add(*node->op(), node->params(), graph.whole.spec(node->inputs[0]));
    calls.give_up(collective::text_of_current_exception());
  } catch (const std::bad_alloc&) {
    // If not enough memory is left for the announcement, the other ranks wait until their deadline.
  }
}

// Base class of visitors of the segments of a run.
class SegmentVisitor : public Visitor<NDArrayRef> {
 public:
  SegmentVisitor(const SegmentedGraph& graph, engine::Origin origin)
      : graph_(graph), origin_(origin) {}

  Arrays walk(const Executable::LaunchArgs& call) {
    const Graph& g = graph_.whole;
    Arrays values(graph_.route.num_values());
    const auto set = [&](int32_t node, const NDArrayRef& array) {
      values[graph_.slots.of({node, 0})] = array;
    };
    for (size_t i = 0; i < call.inputs.size(); ++i) set(g.inputs[i], call.inputs[i]);
    for (size_t i = 0; i < call.parameters.size(); ++i) set(g.parameters[i], call.parameters[i]);
    return graph::walk(graph_.route, std::move(values), *this);
  }
  std::string place(size_t step) const override {
    const Segment& segment = graph_.segments[step];
    return !segment.graph ? str("while running node ", segment.name, " of ", graph_.whole.name)
                          : "";
  }

 protected:
  const SegmentedGraph& graph_;
  const engine::Origin origin_;
};

class Caller final : public SegmentVisitor {
 public:
  Caller(const SegmentedGraph& graph, engine::Origin origin, const EagerCalls& calls)
      : SegmentVisitor(graph, origin), calls_(calls) {}

  Arrays run(size_t step, const Arrays& inputs) override {
    const Segment& segment = graph_.segments[step];
    step_ = step;
    position_ = {segment.terms.later, /*started=*/false};
    NDArrays outputs;
    if (segment.graph) {
      outputs = calls_.graph(*segment.graph, inputs, origin_);
    } else if (segment.host) {
      outputs = segment.host->call(inputs);
    } else {
      const collective::PositionScope in_graph(position_);
      const Node& node = *segment.collective;
      outputs = calls_.op(*node.op(), node.params(), inputs, origin_);
    }
    return {outputs.begin(), outputs.end()};
  }
  size_t first_call_left() const { return step_ + position_.started; }

 private:
  const EagerCalls& calls_;
  size_t step_ = 0;                // index of the running segment
  collective::Position position_;  // position of segment step_
};

// Collects the work of a JoinedTask.
class SegmentJoiner final : public SegmentVisitor {
 public:
  SegmentJoiner(const SegmentedGraph& graph, engine::Origin origin)
      : SegmentVisitor(graph, origin), work(graph.segments.size()) {}

  // Creates all collective calls. Returns false if an output shape differs from the traced shape.
  bool make_calls(collective::Processes& processes) {
    // Throws if the process set has been removed.
    for (const auto& [set, op] : graph_.sets) collective::group_of(op, set);
    std::lock_guard lock(graph_.mutex);
    for (size_t i = 0; i < work.size(); ++i) {
      const Segment& segment = graph_.segments[i];
      if (!segment.collective || segment.terms.kind == collective::Kind::kNone) continue;
      collective::PreparedCallRef& prepared = graph_.prepared[i];
      if (prepared) work[i].call = prepared->make();
      if (work[i].call) continue;
      const Node& node = *segment.collective;
      const TensorSpec& data = graph_.whole.spec(node.inputs[0]);
      // Infers the shapes again, because the job may have other ranks than at the time of the
      // trace.
      const Specs specs = infer_outputs(*node.op(), node.params().get(), {&data, 1});
      if (!(specs[0] == node.outputs[0])) return false;
      prepared = processes.prepare(segment.terms, data);
      work[i].call = prepared->make();
    }
    return true;
  }

  Arrays run(size_t step, const Arrays& inputs) override {
    const Segment& segment = graph_.segments[step];
    SegmentWork& own = work[step];
    if (segment.graph) {
      const CachedGraph::Ready ready =
          segment.graph->prepare(inputs, {graph_.whole.training, false, nullptr});
      Executable& executable = *ready.entry->plain;
      Executable::Work one = executable.work({inputs, *ready.parameters, origin_});
      own.graph = std::move(one.task);
      bytes += one.new_bytes;
      for (engine::Var* var : one.reads) reads.push_back(var);
      may_inline = may_inline && executable.may_inline();
      return {one.outputs.begin(), one.outputs.end()};
    }
    if (!own.call) return inputs;
    const TensorSpec& spec = segment.collective->outputs[0];
    const NDArrayRef output = NDArray::empty(spec, Device{});
    output->data();  // allocates now, because nothing may fail once calls have numbers
    // Copies the handle, because backward may assign other memory to the caller's handle before the
    // task runs.
    own.input = segment.foreign_input ? inputs[0]->detached() : inputs[0];
    own.output = segment.is_result ? output->detached() : output;
    bytes += output->storage()->take_new_bytes();
    may_inline = may_inline && inputs[0]->spec().bytes() + spec.bytes() <= kInlineBytes;
    return {output};
  }

  std::vector<SegmentWork> work;
  SmallVector<engine::Var*, 8> reads;
  size_t bytes = 0;
  bool may_inline = true;
};

std::optional<NDArrays> join(const std::shared_ptr<const SegmentedGraph>& graph,
                             const Executable::LaunchArgs& call) {
  engine::Engine& engine = engine::Engine::get();
  collective::Processes* const processes = collective::running_processes();
  if (!processes || engine.runs_in_caller()) return std::nullopt;
  SegmentJoiner joiner(*graph, call.origin);
  for (const auto arrays : {call.inputs, call.parameters})
    for (const NDArrayRef& a : arrays) {
      if (a->device().type != DeviceType::kCPU || !a->contiguous()) return std::nullopt;
      joiner.reads.push_back(&a->storage()->var());
    }
  if (!engine::are_written(engine, joiner.reads)) return std::nullopt;
  if (!joiner.make_calls(*processes)) return std::nullopt;
  NDArrays outputs;
  SmallVector<engine::Var*, 4> overwrites;
  for (NDArrayRef& output : joiner.walk(call)) {
    overwrites.push_back(&output->storage()->var());
    outputs.push_back(std::move(output));
  }
  auto task = make_ref<JoinedTask>(call.origin, graph, std::move(joiner.work));
  task->number_calls();
  engine.push(std::move(task), {joiner.reads, overwrites, {}},
              {.may_inline = joiner.may_inline, .bytes = joiner.bytes});
  return outputs;
}

}  // namespace

std::optional<NDArrays> push_joined(const std::shared_ptr<const SegmentedGraph>& graph,
                                    const Executable::LaunchArgs& call) {
  if (!graph->can_join) return std::nullopt;
  try {
    return join(graph, call);
  } catch (...) {
    give_up_calls(*graph, 0);
    throw;
  }
}

NDArrays call_segments(const SegmentedGraph& graph, const Executable::LaunchArgs& call,
                       const EagerCalls& calls) {
  Caller caller(graph, call.origin, calls);
  Arrays results;
  try {
    results = caller.walk(call);
  } catch (...) {
    give_up_calls(graph, caller.first_call_left());
    throw;
  }
  const Graph& g = graph.whole;
  const OpSchema& identity = ops().get("_copy");
  NDArrays outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const bool taken = std::ranges::find(outputs, results[i]) != outputs.end();
    const bool fresh = g.node(g.outputs[i]).kind == NodeKind::kOp && !taken;
    outputs.push_back(fresh ? results[i]
                            : calls.op(identity, identity.default_params, {&results[i], 1}, {})[0]);
  }
  return outputs;
}

}  // namespace mxlite::graph
