#include "cpp/graph/cached_graph.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "cpp/graph/graph_cache.h"
#include "cpp/graph/run/segments.h"
#include "cpp/ops/amp.h"
#include "cpp/ops/collective/run.h"
#include "cpp/ops/weight_forms.h"

namespace mxlite::graph {
namespace {

constexpr size_t kManyShapes = 64;  // number of shapes after which a warning is shown; larger
                                    // than in programs with padded inputs or buckets
// Number of shapes for which weights are packed in the layout that is fastest for the shape.
constexpr int kShapesWithOwnWeights = 8;

std::atomic<uint64_t> uses{0};

void print_warning(const std::string& text) { std::fprintf(stderr, "mxlite: %s\n", text.c_str()); }
std::atomic<void (*)(const std::string&)> warn_user{print_warning};

void add_footprint(const CachedGraph::Compiled& entry, CachedGraph::Footprint& footprint) {
  if (entry.plain) entry.plain->add_to(footprint.own, footprint.shared);
  if (entry.recorded) entry.recorded->add_to(footprint.own, footprint.shared);
  if (entry.segmented)
    for (const Segment& segment : entry.segmented->segments)
      if (segment.graph) segment.graph->add_to(footprint);
}

void forget_packed(const CachedGraph::Compiled& entry) {
  if (entry.plain) entry.plain->forget_packed();
  if (entry.recorded) entry.recorded->forget_packed();
}

Device device_of(std::span<const NDArrayRef> inputs, const ArrayList& params) {
  if (!inputs.empty()) return inputs[0]->device();
  return params.empty() ? Device{} : params[0]->device();
}

// Runs `trace`. If it fails, keeps the traced calls for collective::give_up_failed_trace.
auto keeping_calls(const auto& trace) {
  collective::TracedCalls calls;
  try {
    return trace();
  } catch (...) {
    calls.keep();
    throw;
  }
}

// Registers the collectives of a graph as if it were traced now, and returns the graph.
Graph note_calls(Graph graph) {
  for (const Node& n : graph.nodes)
    if (n.kind == NodeKind::kOp && n.inputs.size() == 1)
      collective::note_traced(*n.op(), n.params(), graph.spec(n.inputs[0]));
  return graph;
}

}  // namespace

void set_warning_function(void (*warn)(const std::string& text)) { warn_user = warn; }

CachedGraph::CachedGraph(TraceFn trace, std::string name, bool is_segment)
    : trace_(std::move(trace)),
      name_(std::move(name)),
      is_segment_(is_segment),
      compiled_(std::make_shared<std::atomic<int>>(0)) {
  if (!is_segment_) GraphCache::get().add(*this);
}

CachedGraph::~CachedGraph() {
  if (!is_segment_) GraphCache::get().remove(*this);
}

Traced trace_once(const TraceFn& trace_fn, const std::string& name, Device device, bool training,
                  bool recording, std::vector<TensorSpec> inputs,
                  std::span<const TensorSpec> parameters, bool numpy) {
  Traced traced;
  traced.recording = recording;
  traced.numpy = numpy;
  traced.device = device;
  traced.input_specs = std::move(inputs);
  Trace trace(name, device, training, recording, numpy);
  ArrayList traced_inputs, traced_params;
  for (const TensorSpec& s : traced.input_specs) traced_inputs.push_back(trace.add_input(s));
  for (const TensorSpec& s : parameters) traced_params.push_back(trace.add_parameter(s));
  traced.graph = trace.finish(trace_fn(traced_inputs, traced_params));
  for (size_t i = 0; i < parameters.size(); ++i)
    traced.parameter_specs.push_back(traced.graph.spec({traced.graph.parameters[i], 0}));
  return traced;
}

void CachedGraph::set_params(ArrayList params) {
  for (size_t i = 0; i < params.size(); ++i)
    MX_CHECK(params[i] && !params[i]->is_traced(), name_, ": parameter ", i,
             " must be initialized, got a parameter without data");
  auto list = std::make_shared<const ArrayList>(std::move(params));
  std::vector<KeptEntry> dropped;  // destroyed without the lock: graphs may hold Python objects
  std::lock_guard lock(mutex_);
  bool same = list->size() == params_->size(), same_memory = same;
  for (size_t i = 0; same && i < list->size(); ++i) {
    const NDArray &now = *(*list)[i], &before = *(*params_)[i];
    same = now.spec() == before.spec() && now.device() == before.device();
    same_memory &= now.storage() == before.storage();
  }
  if (!same) dropped.swap(kept_);
  params_ = std::move(list);
  if (!same_memory)  // otherwise unused signatures would keep the old parameters alive
    for (const KeptEntry& kept : kept_) forget_packed(*kept.entry);
  for (KeptEntry& kept : kept_) {
    kept.parameters = join(*params_, kept.entry->captured);
    if (kept.entry->segmented) graph::set_params(*kept.entry->segmented, *kept.parameters);
  }
}

std::shared_ptr<const ArrayList> CachedGraph::join(const ArrayList& a, const ArrayList& b) {
  auto all = std::make_shared<ArrayList>(a);
  all->insert(all->end(), b.begin(), b.end());
  return all;
}

bool CachedGraph::matches(const KeptEntry& kept, std::span<const NDArrayRef> inputs,
                          const Mode& mode) const {
  const Compiled& e = *kept.entry;
  if (e.training != mode.training || e.recording != mode.recording ||
      e.input_specs.size() != inputs.size() || e.numpy != any_numpy(inputs))
    return false;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!(e.input_specs[i] == inputs[i]->spec()) || !(e.device == inputs[i]->device()))
      return false;
  if (!mode.recording) return true;
  size_t k = 0;
  for (const NDArrayRef& a : inputs)
    if (e.needs[k++] != mode.needs_grad(*a)) return false;
  for (const NDArrayRef& a : *kept.parameters)
    if (e.needs[k++] != mode.needs_grad(*a)) return false;
  return true;
}

CachedGraph::Ready CachedGraph::prepare(std::span<const NDArrayRef> inputs, const Mode& mode) {
  std::shared_ptr<const ArrayList> params;
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (!matches(kept_[i], inputs, mode)) continue;
      if (i > 0)
        std::rotate(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(i),
                    kept_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      kept_[0].last_use = ++uses;
      return {kept_[0].entry, kept_[0].parameters};
    }
    params = params_;
  }
  // Holds no lock here, because tracing runs Python, which may switch threads. Two threads may
  // therefore compile the same signature.
  const std::shared_ptr<const Compiled> entry =
      keeping_calls([&] { return compile(inputs, mode, *params); });
  size_t shapes_to_warn_of = 0;
  KeptEntry kept{entry, join(*params, entry->captured), ++uses};
  if (entry->segmented) graph::set_params(*entry->segmented, *kept.parameters);
  {
    std::lock_guard lock(mutex_);
    if (params_ == params) {
      kept_.insert(kept_.begin(), kept);
      if (!warned_ && kept_.size() >= kManyShapes && num_shapes_locked() >= kManyShapes) {
        warned_ = true;
        shapes_to_warn_of = kManyShapes;
      }
    }
  }
  if (!is_segment_) GraphCache::get().trim();
  if (shapes_to_warn_of)
    warn_user.load()(str(name_.empty() ? "a hybridized block" : name_, " was compiled for ",
                         shapes_to_warn_of, " input shapes; pad or bucket the batch"));
  return {kept.entry, kept.parameters};
}

std::shared_ptr<CachedGraph::Compiled> CachedGraph::compile(std::span<const NDArrayRef> inputs,
                                                            const Mode& mode,
                                                            const ArrayList& params) {
  auto entry = std::make_shared<Compiled>();
  entry->device = device_of(inputs, params);
  entry->training = mode.training;
  entry->recording = mode.recording;
  entry->numpy = any_numpy(inputs);
  std::vector<TensorSpec> param_specs;
  for (const NDArrayRef& a : inputs) {
    MX_CHECK_KIND(a->device() == entry->device, ErrorKind::kDevice, name_,
                  ": all inputs must be on one device, got ", entry->device, " and ", a->device());
    entry->input_specs.push_back(a->spec());
  }
  for (const NDArrayRef& a : params) {
    MX_CHECK_KIND(a->device() == entry->device, ErrorKind::kDevice, name_,
                  ": parameters must be on the device of the inputs, ", entry->device,
                  ", got one of shape ", a->shape(), " on ", a->device());
    param_specs.push_back(a->spec());
  }
  Graph graph;
  if (const auto known = take_adopted(*entry, param_specs))
    graph = note_calls(std::move(known->graph));
  else
    graph = trace_once(trace_, name_, entry->device, mode.training, mode.recording,
                       entry->input_specs, param_specs, entry->numpy)
                .graph;
  for (size_t i = params.size(); i < graph.parameters.size(); ++i)
    entry->captured.push_back(graph.node(graph.parameters[i]).value);
  entry->num_outputs = graph.outputs.size();
  bool any = false;
  if (mode.recording) {
    for (const auto& list : {ArrayList(inputs.begin(), inputs.end()), params, entry->captured})
      for (const NDArrayRef& a : list) entry->needs.push_back(mode.needs_grad(*a));
    any = std::find(entry->needs.begin(), entry->needs.end(), 1) != entry->needs.end();
  }
  if (has_calls(graph)) {
    entry->segmented = cut_at_calls(std::move(graph));
  } else if (any) {
    entry->recorded =
        std::make_shared<RecordedGraph>(std::move(graph), entry->needs, entry->device);
  } else {
    entry->plain = compile_plain(std::move(graph), entry->device);
  }
  return entry;
}

void CachedGraph::adopt(std::shared_ptr<Traced> traced) {
  std::lock_guard lock(mutex_);
  std::swap(adopted_, traced);  // the old value is destroyed after the lock is released
}

std::shared_ptr<Traced> CachedGraph::take_adopted(const Compiled& entry,
                                                  std::span<const TensorSpec> params) {
  std::shared_ptr<Traced> traced;
  {
    std::lock_guard lock(mutex_);
    std::swap(traced, adopted_);
  }
  const bool same = traced && traced->exact && traced->device == entry.device &&
                    traced->graph.training == entry.training &&
                    traced->recording == entry.recording && traced->numpy == entry.numpy &&
                    traced->input_specs == entry.input_specs &&
                    std::ranges::equal(traced->parameter_specs, params);
  return same ? traced : nullptr;
}

std::optional<std::vector<TensorSpec>> CachedGraph::last_signature() const {
  std::lock_guard lock(mutex_);
  if (kept_.empty()) return std::nullopt;
  return kept_[0].entry->input_specs;
}

ExecutableRef CachedGraph::compile_plain(Graph graph, Device device) const {
  std::shared_ptr<std::atomic<int>> compiled;
  {
    std::lock_guard lock(mutex_);
    compiled = compiled_;
  }
  const bool exact = graph.training;
  const CompactWeights compact(!exact && (*compiled)++ >= kShapesWithOwnWeights);
  return Executable::compile(std::move(graph), device, exact);
}

void CachedGraph::count_with(const CachedGraph& other) {
  std::scoped_lock lock(mutex_, other.mutex_);
  compiled_ = other.compiled_;
}

ArrayList CachedGraph::run_in_trace(std::span<const NDArrayRef> inputs) const {
  std::shared_ptr<const ArrayList> params;
  {
    std::lock_guard lock(mutex_);
    params = params_;
  }
  return trace_(ArrayList(inputs.begin(), inputs.end()), *params);
}

size_t CachedGraph::num_entries() const {
  std::lock_guard lock(mutex_);
  return kept_.size();
}

// Counts training and inference with the same input shapes as one signature.
size_t CachedGraph::num_shapes_locked() const {
  std::vector<const std::vector<TensorSpec>*> seen;
  for (const KeptEntry& s : kept_) {
    const auto& specs = s.entry->input_specs;
    const bool known = std::any_of(seen.begin(), seen.end(), [&](auto* o) { return *o == specs; });
    if (!known) seen.push_back(&specs);
  }
  return seen.size();
}

std::vector<CachedGraph::Evictable> CachedGraph::by_last_use() {
  std::vector<Evictable> result;
  std::lock_guard lock(mutex_);
  for (const KeptEntry& kept : kept_) {
    Evictable& e = result.emplace_back(Evictable{this, kept.entry, kept.last_use, {}});
    add_footprint(*kept.entry, e.footprint);
  }
  return result;
}

void CachedGraph::drop(const std::shared_ptr<const Compiled>& entry) {
  KeptEntry dropped;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(kept_, entry, &KeptEntry::entry);
  if (at == kept_.end()) return;
  dropped = std::move(*at);
  kept_.erase(at);
}

void CachedGraph::add_to(Footprint& footprint) const {
  std::lock_guard lock(mutex_);
  for (const KeptEntry& kept : kept_) add_footprint(*kept.entry, footprint);
}

Traced infer_params(const TraceFn& trace, const std::string& name,
                    std::span<const NDArrayRef> inputs, std::span<const TensorSpec> specs,
                    bool training, bool recording) {
  // Shapes do not depend on casts, so mixed precision is off and float32 replaces its input types.
  const amp::Rules* rules = amp::current_rules();
  const amp::Pause no_amp;
  std::vector<TensorSpec> input_specs;
  for (const NDArrayRef& a : inputs) {
    TensorSpec spec = a->spec();
    if (rules && spec.dtype == rules->target) spec.dtype = DType::kFloat32;
    input_specs.push_back(spec);
  }
  Traced traced = keeping_calls([&] {
    return trace_once(trace, name, device_of(inputs, {}), training, recording,
                      std::move(input_specs), specs, any_numpy(inputs));
  });
  traced.exact = !rules;
  return traced;
}

}  // namespace mxlite::graph
