#include "cpp/graph/recorded_graph.h"

#include <algorithm>

#include "cpp/graph/passes/passes.h"
#include "cpp/graph/rewrite.h"

namespace mxlite::graph {
namespace {

// Returns whether backward recomputes values. On the CPU, recomputing leaves more cache to other
// data. On a GPU, reading a saved value is faster than recomputing it.
bool repeats_values(Device device) { return device.type == DeviceType::kCPU; }

}  // namespace

RecordedGraph::RecordedGraph(Graph traced, std::vector<uint8_t> needs, Device device)
    : traced_(std::move(traced)),
      recorded_(run_passes(Pipeline::kRecorded, traced_, {device, true})),
      needs_(std::move(needs)),
      device_(device) {
  const PassContext context{device, true, is_small(recorded_, device.type)};
  fused_ = run_passes(Pipeline::kDifferentiated, recorded_, context);
  // The backward graph for all outputs uses every value that a backward graph for fewer outputs
  // uses.
  const std::vector<uint8_t> all(fused_.outputs.size(), 1);
  full_ = build_backward(fused_, needs_, all, repeats_values(device_));
  Graph graph = fused_;
  for (ValueId v : full_.saved) {
    saved_values_.push_back(v);
    const Node& n = fused_.node(v);
    if (n.kind == NodeKind::kInput) {
      saved_.push_back({true, n.index});
      continue;
    }
    const auto known = std::find(graph.outputs.begin(), graph.outputs.end(), v);
    saved_.push_back({false, static_cast<int>(known - graph.outputs.begin())});
    if (known == graph.outputs.end()) graph.outputs.push_back(v);
  }
  const auto uses = count_uses(full_.graph);
  for (int32_t id : full_.graph.parameters) {
    bool written = false;
    const int index = full_.graph.node(id).index;
    const ValueId here{fused_.parameters[static_cast<size_t>(index)], 0};
    for (const Node& n : fused_.nodes)
      for (size_t k = 0; n.kind == NodeKind::kOp && k < n.inputs.size(); ++k)
        written |= n.inputs[k] == here && n.op()->mutates(static_cast<int>(k), fused_.training);
    if (uses[static_cast<size_t>(id)][0] && !written) read_parameters_.push_back(index);
  }
  Border border;
  border.num_plain_outputs = fused_.outputs.size();
  forward_ = Executable::compile(std::move(graph), device_, /*exact=*/true, border);
}

std::shared_ptr<const RecordedGraph::Backward> RecordedGraph::backward(
    std::span<const uint8_t> heads, bool last) {
  std::vector<uint8_t> wanted(heads.begin(), heads.end());
  wanted.push_back(last);
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, value] : backwards_)
      if (key == wanted) return value;
  }
  // Compiles without the lock, because compiling runs operators. Two threads may therefore compile
  // the same graph.
  auto made = compile(backward_graph(heads), last);
  std::lock_guard lock(mutex_);
  backwards_.emplace_back(std::move(wanted), made);
  return made;
}

void RecordedGraph::add_to(size_t& own, std::vector<std::pair<const void*, size_t>>& shared) {
  forward_->add_to(own, shared);
  std::lock_guard lock(mutex_);
  for (const auto& [key, backward] : backwards_) backward->executable->add_to(own, shared);
}

void RecordedGraph::forget_packed() {
  forward_->forget_packed();
  std::lock_guard lock(mutex_);
  for (const auto& [key, backward] : backwards_) backward->executable->forget_packed();
}

BackwardGraph RecordedGraph::backward_graph(std::span<const uint8_t> heads) const {
  const bool all = std::ranges::all_of(heads, [](uint8_t arrives) { return arrives != 0; });
  BackwardGraph graph =
      all ? full_ : build_backward(fused_, needs_, heads, repeats_values(device_));
  MX_CHECK_KIND(!graph.not_differentiable, ErrorKind::kNotSupported, graph.not_differentiable->name,
                ": the operator is not differentiable");
  return graph;
}

std::shared_ptr<const RecordedGraph::Backward> RecordedGraph::compile(BackwardGraph graph,
                                                                      bool last) const {
  auto result = std::make_shared<Backward>();
  Border border;
  for (ValueId v : graph.saved) {
    const auto at = std::find(saved_values_.begin(), saved_values_.end(), v);
    MX_ASSERT(at != saved_values_.end());
    result->saved.push_back(static_cast<int>(at - saved_values_.begin()));
    const Source source = saved_[static_cast<size_t>(result->saved.back())];
    border.input_layouts.push_back(
        source.is_input ? Layout{}
                        : forward_->program().outputs[static_cast<size_t>(source.index)].layout);
    const Saved place = source.is_input
                            ? Saved{}
                            : forward_->program().outputs[static_cast<size_t>(source.index)].saved;
    border.saved_inputs.push_back(static_cast<bool>(place));
    // If all saved values are empty, no block holds them.
    const bool donated =
        last && device_.type == DeviceType::kCPU && forward_->program().saved_bytes > 0;
    border.donated.push_back(donated ? place : Saved{});
  }
  border.donated_bytes = last ? forward_->program().saved_bytes : 0;
  result->heads = std::move(graph.heads);
  result->grads = std::move(graph.grads);
  result->executable = Executable::compile(std::move(graph.graph), device_, /*exact=*/true, border);
  return result;
}

}  // namespace mxlite::graph
