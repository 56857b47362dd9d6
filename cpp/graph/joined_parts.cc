#include "cpp/graph/joined_parts.h"

#include <algorithm>
#include <set>

#include "cpp/engine/written.h"
#include "cpp/graph/joined_task.h"
#include "cpp/ops/collective/run.h"

namespace mxlite::graph {
namespace {

constexpr size_t kInlineBytes = 64 << 10;  // limit for the operands of a call, as in invoke.cc

bool is_plain(const NDArray& array) {
  return array.device().type == DeviceType::kCPU && array.contiguous();
}

bool writes_inputs(const Graph& g, const Node& n) {
  for (size_t k = 0; k < n.inputs.size(); ++k)
    if (n.kind == NodeKind::kOp && n.call->writes(static_cast<int>(k), g.training)) return true;
  return false;
}

}  // namespace

JoinedParts::JoinedParts(const Split& split)
    : split_(split), name_(task_name_of(split.whole.name)), slots_(split.whole) {
  const Graph& g = split.whole;
  for (const Node& n : g.nodes) possible_ = possible_ && n.kind != NodeKind::kConstant;
  for (size_t i = 0; i < g.nodes.size() && possible_; ++i)
    possible_ = !writes_inputs(g, g.nodes[i]);
  for (size_t i = 0; i < slots_.size(); ++i) alias_.push_back(static_cast<Slot>(i));
  for (const Part& part : split.parts) possible_ = possible_ && add_step(part);
  if (possible_) connect();
  prepared_.resize(steps_.size());
}

bool JoinedParts::add_step(const Part& part) {
  if (part.host) return false;
  Step step;
  step.part = &part;
  for (const Slot slot : slots_.of(part.inputs)) step.inputs.push_back(alias_[slot]);
  step.outputs = slots_.of(part.outputs);
  if (part.collective) {
    const Node& node = *part.collective;
    const TensorSpec& data = split_.whole.spec(node.inputs[0]);
    step.terms = collective::terms_of(*node.op(), node.params().get(), data);
    step.terms.later = part.later;
    const auto set = step.terms.process_set;
    if (std::ranges::find(sets_, set, &std::pair<const char*, int32_t>::second) == sets_.end())
      sets_.emplace_back(node.op()->name.c_str(), set);
    if (step.terms.kind == collective::Kind::kNone) {
      alias_[step.outputs[0]] = step.inputs[0];
      return true;
    }
    if (!collective::runs_in_place(step.terms, data, node.outputs[0])) return false;
    step.may_inline = data.bytes() + node.outputs[0].bytes() <= kInlineBytes;
  }
  steps_.push_back(std::move(step));
  return true;
}

void JoinedParts::connect() {
  std::vector<int> maker(slots_.size(), -1);           // the step that computes a value
  std::vector<std::set<size_t>> calls(steps_.size());  // by step: those whose result it needs
  size_t num_calls = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    std::set<size_t> before;
    for (const Slot slot : step.inputs)
      if (maker[slot] >= 0) before.insert(static_cast<size_t>(maker[slot]));
    step.needs = static_cast<uint32_t>(before.size());
    for (const size_t b : before) {
      steps_[b].next.push_back(static_cast<uint32_t>(i));
      calls[i].insert(calls[b].begin(), calls[b].end());
    }
    for (const Slot slot : step.outputs) maker[slot] = static_cast<int>(i);
    if (!step.part->collective) continue;
    step.foreign_input = before.empty();
    calls[i].insert(i);
    ++num_calls;
  }
  std::set<Slot> results;
  for (const ValueId v : split_.whole.outputs) {
    const Slot slot = slots_.of(v);
    const int step = maker[slot];
    // A result that is the graph's own input, or that of another result, would have to be copied. A
    // result that does not need all calls must not wait for all.
    possible_ = possible_ && step >= 0 && results.insert(slot).second &&
                calls[static_cast<size_t>(step)].size() == num_calls;
    if (step >= 0) steps_[static_cast<size_t>(step)].is_result = true;
  }
}

std::optional<NDArrays> JoinedParts::push(std::shared_ptr<const Split> owner,
                                          std::span<const NDArrayRef> inputs,
                                          const ArrayList& parameters,
                                          engine::Origin origin) const {
  try {
    return prepare_and_push(std::move(owner), inputs, parameters, origin);
  } catch (...) {
    give_up_calls(split_, 0);
    throw;
  }
}

std::optional<NDArrays> JoinedParts::prepare_and_push(std::shared_ptr<const Split> owner,
                                                      std::span<const NDArrayRef> inputs,
                                                      const ArrayList& parameters,
                                                      engine::Origin origin) const {
  if (!possible_) return std::nullopt;
  engine::Engine& engine = engine::Engine::get();
  collective::Processes* processes = collective::running_processes();
  if (!processes || engine.runs_in_caller()) return std::nullopt;

  const Graph& g = split_.whole;
  SmallVector<engine::Var*, 8> reads;
  std::vector<NDArrayRef> values(slots_.size());
  const auto give = [&](int32_t node, const NDArrayRef& array) {
    values[slots_.of({node, 0})] = array;
    reads.push_back(&array->storage()->var());
    return is_plain(*array);
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!give(g.inputs[i], inputs[i])) return std::nullopt;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!give(g.parameters[i], parameters[i])) return std::nullopt;
  if (!engine::are_written(engine, reads)) return std::nullopt;

  std::vector<JoinedWork> work(steps_.size());
  if (!make_calls(*processes, work)) return std::nullopt;
  size_t bytes = 0;
  bool may_inline = true;
  std::vector<NDArrayRef> own;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    own.clear();
    for (const Slot slot : step.inputs) own.push_back(values[slot]);
    if (step.part->graph) {
      const CachedGraph::Ready ready = step.part->graph->prepare(own, {g.training, false, nullptr});
      Executable& executable = *ready.entry->plain;
      Executable::Work one = executable.work({own, *ready.parameters, origin});
      work[i].graph = std::move(one.task);
      bytes += one.new_bytes;
      for (engine::Var* var : one.reads) reads.push_back(var);
      for (size_t k = 0; k < step.outputs.size(); ++k)
        values[step.outputs[k]] = std::move(one.outputs[k]);
      may_inline = may_inline && executable.may_inline();
      continue;
    }
    const TensorSpec& spec = step.part->collective->outputs[0];
    NDArrayRef output = NDArray::empty(spec, Device{});
    output->data();  // allocated now, because nothing may fail once calls have numbers
    // Own handles: backward may give the caller's handles other memory before this runs.
    work[i].input = step.foreign_input ? own[0]->detached() : own[0];
    work[i].output = step.is_result ? output->detached() : output;
    bytes += output->storage()->take_new_bytes();
    values[step.outputs[0]] = std::move(output);
    may_inline = may_inline && step.may_inline;
  }
  NDArrays outputs;
  SmallVector<engine::Var*, 4> overwrites;
  for (const ValueId v : g.outputs) {
    outputs.push_back(values[slots_.of(v)]);
    overwrites.push_back(&outputs.back()->storage()->var());
  }
  auto task = make_ref<JoinedTask>(name_, origin, std::move(owner), steps_, std::move(work));
  task->number_calls();
  engine.push(std::move(task), {reads, overwrites, {}}, {.may_inline = may_inline, .bytes = bytes});
  return outputs;
}

bool JoinedParts::make_calls(collective::Processes& processes,
                             std::vector<JoinedWork>& work) const {
  for (const auto& [op, set] : sets_) collective::group_of(op, set);  // may have been removed
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (!step.part->collective) continue;
    collective::PreparedCallRef& prepared = prepared_[i];
    if (prepared) work[i].call = prepared->make();
    if (work[i].call) continue;
    const Node& node = *step.part->collective;
    const TensorSpec& data = split_.whole.spec(node.inputs[0]);
    // The job may have other ranks than when the graph was made.
    const Specs specs = infer_outputs(*node.op(), node.params().get(), {&data, 1});
    if (!(specs[0] == node.outputs[0])) return false;
    prepared = processes.prepare(step.terms, data);
    work[i].call = prepared->make();
  }
  return true;
}

}  // namespace mxlite::graph
