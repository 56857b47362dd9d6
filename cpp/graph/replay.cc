#include "cpp/graph/replay.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/launch_log.h"

namespace mxlite::graph {
namespace {

std::atomic<GraphRecorder*> the_recorder{nullptr};

constexpr size_t kMostGraphs = 4;  // per executable; callers that keep outputs alternate addresses
constexpr size_t kMostSeen = 4;
constexpr int64_t kMostRecordings = 16;  // addresses that keep changing are not worth more
constexpr size_t kMostStagedBytes = size_t{256} << 20;  // sum over the inputs
constexpr size_t kMostInputBytes = size_t{64} << 20;    // one input: copies of more cost too much

struct Totals {
  std::atomic<int64_t> step_by_step{0}, recorded{0}, replayed{0}, staged_inputs{0};
} totals_of_process;

void count(int64_t& own, std::atomic<int64_t>& total) {
  ++own;
  total.fetch_add(1, std::memory_order_relaxed);
}

bool is_on() {
  static const bool on = env_int("MXLITE_CUDA_GRAPHS", 1) != 0;
  return on;
}

}  // namespace

void set_graph_recorder(GraphRecorder* recorder) { the_recorder = recorder; }
GraphRecorder* graph_recorder() { return the_recorder; }

Replay::Stats Replay::totals() {
  const Totals& t = totals_of_process;
  return {t.step_by_step, t.recorded, t.replayed, t.staged_inputs};
}

Replay::Replay(const char* name, Device device, Inputs inputs, StepsFn steps)
    : name_(name),
      device_(device),
      inputs_(std::move(inputs)),
      steps_(std::move(steps)),
      stages_(inputs_.bytes.size()) {}

Replay::Key Replay::key_of(std::span<void* const> bases, Stream& stream) const {
  Key key(bases.begin(), bases.end());
  key.push_back(stream.scratch(0));  // its current address
  return key;
}

void Replay::run(std::span<void*> bases, RandomState random, Stream& stream) {
  const auto step_by_step = [&] {
    count(stats_.step_by_step, totals_of_process.step_by_step);
    steps_(bases, random, stream, nullptr);
  };
  if (gave_up_ || !graph_recorder() || !is_on()) return step_by_step();

  copy_staged(bases, stream);
  Key key = key_of(bases, stream);
  auto known = std::find_if(graphs_.begin(), graphs_.end(), [&](auto& e) { return e.key == key; });
  if (known == graphs_.end()) {
    const Key* const before = find_similar(key);
    if (!before || !stage_changed(*before, bases, stream) || !record(bases, stream)) {
      step_by_step();
      // Checked after the run, because kernels may have enlarged the scratch memory.
      return remember(key_of(bases, stream));
    }
    known = graphs_.begin();
  }
  std::rotate(graphs_.begin(), known, known + 1);
  count(stats_.replayed, totals_of_process.replayed);
  note_launch("the kernels of a CUDA graph (MXLITE_CUDA_GRAPHS=0 launches them one by one)");
  graphs_.front().graph->launch(stream, random);
}

void Replay::copy_staged(std::span<void*> bases, Stream& stream) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (!stages_[i]) continue;
    void*& base = bases[inputs_.first + i];
    stream.copy(stages_[i]->data(), base, inputs_.bytes[i]);
    base = stages_[i]->data();
  }
}

bool Replay::may_be_staged(size_t slot) const {
  return slot >= inputs_.first && slot < inputs_.first + inputs_.bytes.size() &&
         inputs_.bytes[slot - inputs_.first] <= kMostInputBytes;
}

const Replay::Key* Replay::find_similar(const Key& key) const {
  const auto equal = std::find(seen_.begin(), seen_.end(), key);
  if (equal != seen_.end()) return &*equal;
  for (const Key& other : seen_) {
    bool similar = true;
    for (size_t slot = 0; slot < key.size() && similar; ++slot)
      similar = other[slot] == key[slot] || may_be_staged(slot);
    if (similar) return &other;
  }
  return nullptr;
}

bool Replay::stage_changed(const Key& before, std::span<void*> bases, Stream& stream) {
  size_t bytes = 0;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const size_t slot = inputs_.first + i;
    if (stages_[i] || before[slot] != bases[slot]) bytes += inputs_.bytes[i];
  }
  if (bytes > kMostStagedBytes) return false;
  const Key old = before;  // lies in seen_
  for (size_t i = 0; i < stages_.size(); ++i) {
    void*& base = bases[inputs_.first + i];
    if (old[inputs_.first + i] == base) continue;
    stages_[i] = Storage::allocate(device_, inputs_.bytes[i]);
    stream.copy(stages_[i]->data(), base, inputs_.bytes[i]);
    base = stages_[i]->data();
    count(stats_.staged_inputs, totals_of_process.staged_inputs);
    // Graphs and keys with this input's old memory cannot match again.
    graphs_.clear();
    seen_.clear();
  }
  return true;
}

void Replay::remember(Key key) {
  seen_.insert(seen_.begin(), std::move(key));
  if (seen_.size() > kMostSeen) seen_.pop_back();
}

bool Replay::record(std::span<void*> bases, Stream& stream) {
  if (stats_.recorded == kMostRecordings) {
    give_up("its memory changes at each run");
    return false;
  }
  try {
    auto graph = graph_recorder()->record(
        stream, [&](Stream& s, const RandomState* random) { steps_(bases, {}, s, random); });
    graphs_.insert(graphs_.begin(), Entry{key_of(bases, stream), std::move(graph)});
    if (graphs_.size() > kMostGraphs) graphs_.pop_back();
    count(stats_.recorded, totals_of_process.recorded);
    return true;
  } catch (const Error& error) {
    give_up(error.what());  // an error of an operator is raised again by the run step by step
    return false;
  }
}

void Replay::give_up(const char* reason) {
  gave_up_ = true;
  std::fprintf(stderr, "mxlite: %s runs without CUDA graphs: %s\n", name_, reason);
}

}  // namespace mxlite::graph
