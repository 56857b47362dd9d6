#include "cpp/graph/run/replay.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/launch_log.h"
#include "cpp/core/scratch_shortage.h"
#include "cpp/ndarray/memory_profile.h"

namespace mxlite::graph {
namespace {

std::atomic<GraphRecorder*> the_recorder{nullptr};

constexpr size_t kMostGraphs = 8;  // per executable; several, because large arrays may alternate
                                   // between addresses
constexpr size_t kMostSeen = 8;
// Number of recordings before their cost is checked. Afterwards, an executable records again only
// if each further recording has had kReplaysPerRecording replays. Otherwise it runs step by step.
constexpr int64_t kFreeRecordings = 16;
constexpr int64_t kReplaysPerRecording = 8;
// Number of recordings that may fail because scratch memory is too small. The run after a failure
// enlarges the scratch memory.
constexpr int kMostShortages = 8;
constexpr size_t kMostCopiedBytes = size_t{1} << 30;   // limit for all executables of the process
                                                       // together
constexpr size_t kMostArrayBytes = size_t{256} << 20;  // larger arrays are not copied, because that
                                                       // takes too long
std::atomic<size_t> copied_bytes_of_process{0};
// A kept array that has moved three times within this many runs counts as an array that moves in
// every run. A gradient moves less often: into a bucket, into another bucket once the order of
// backward is known, and once for each bucket size that the tuner tries.
constexpr int64_t kFewRuns = 8;
constexpr int64_t kNever = -kFewRuns;

struct Totals {
  std::atomic<int64_t> step_by_step{0}, recorded{0}, replayed{0}, copied_arrays{0};
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
  return {t.step_by_step, t.recorded, t.replayed, t.copied_arrays};
}

Replay::Replay(const char* name, AllocateFn allocate, std::vector<CallerArray> arrays,
               StepsFn steps)
    : name_(name),
      allocate_(std::move(allocate)),
      arrays_(std::move(arrays)),
      steps_(std::move(steps)),
      copies_(arrays_.size()),
      given_(arrays_.size()),
      stays_(arrays_.size()),
      moves_(arrays_.size(), {kNever, kNever, kNever}) {}

Replay::~Replay() { copied_bytes_of_process -= copied_bytes_; }

Replay::Key Replay::key_of(std::span<void* const> bases, Stream& stream) const {
  Key key(bases.begin(), bases.end());
  key.push_back(stream.scratch(0));  // the scratch memory's current address
  return key;
}

void Replay::note_addresses(std::span<void* const> bases, std::span<const uint8_t> kept) {
  ++runs_;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const uint32_t slot = arrays_[i].slot;
    auto& moves = moves_[i];
    if (runs_ > 1 && given_[i] != bases[slot]) moves = {runs_, moves[0], moves[1]};
    given_[i] = bases[slot];
    stays_[i] = slot < kept.size() && kept[slot] && runs_ - moves.back() >= kFewRuns;
  }
}

void Replay::run(std::span<void*> bases, RandomState random, Stream& stream,
                 std::span<const uint8_t> kept) {
  note_addresses(bases, kept);
  if (gave_up_ || !graph_recorder() || !is_on()) return run_step_by_step(bases, random, stream);
  copy_inputs(bases, stream);
  Key key = key_of(bases, stream);
  const auto known = std::ranges::find(graphs_, key, &Entry::key);
  if (known != graphs_.end()) {
    std::rotate(graphs_.begin(), known, known + 1);
    return launch_first(bases, random, stream);
  }
  const size_t copied = copied_bytes_;
  const bool returns = will_return(key, bases, stream);
  // The first run with new copies is not recorded, because it tests plans for the alignment of the
  // copies and may enlarge scratch memory.
  bool in_copies = copied_bytes_ > copied;
  if (returns && may_record() && record(bases, stream, in_copies))
    return launch_first(bases, random, stream);
  if (in_copies)
    run_in_copies(bases, random, stream);
  else
    run_step_by_step(bases, random, stream);
  // Computes the key after the run, because kernels may have enlarged the scratch memory.
  remember(key_of(bases, stream));
}

void Replay::launch_first(std::span<void* const> bases, RandomState random, Stream& stream) {
  count(stats_.replayed, totals_of_process.replayed);
  note_launch("the kernels of a CUDA graph (MXLITE_CUDA_GRAPHS=0 launches them one by one)");
  graphs_.front().graph->launch(stream, random);
  copy_outputs(bases, stream);
}

void Replay::run_step_by_step(std::span<void*> bases, RandomState random, Stream& stream) {
  count(stats_.step_by_step, totals_of_process.step_by_step);
  const auto set_outputs = [&](auto&& address) {
    for (size_t i = 0; i < arrays_.size(); ++i)
      if (arrays_[i].is_output && copies_[i]) bases[arrays_[i].slot] = address(i);
  };
  set_outputs([&](size_t i) { return given_[i]; });
  steps_(bases, random, stream, nullptr);
  set_outputs([&](size_t i) { return copies_[i]->data(); });
}

void Replay::run_in_copies(std::span<void*> bases, RandomState random, Stream& stream) {
  count(stats_.step_by_step, totals_of_process.step_by_step);
  steps_(bases, random, stream, nullptr);
  copy_outputs(bases, stream);
}

void Replay::copy_inputs(std::span<void*> bases, Stream& stream) const {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (!copies_[i]) continue;
    void* const copy = copies_[i]->data();
    if (!arrays_[i].is_output) stream.copy(copy, given_[i], arrays_[i].bytes);
    bases[arrays_[i].slot] = copy;
  }
}

void Replay::copy_outputs(std::span<void* const> bases, Stream& stream) const {
  for (size_t i = 0; i < arrays_.size(); ++i)
    if (arrays_[i].is_output && copies_[i])
      stream.copy(given_[i], bases[arrays_[i].slot], arrays_[i].bytes);
}

bool Replay::can_be_copied(size_t array) const {
  return !no_memory_ && !copies_[array] && !stays_[array] &&
         arrays_[array].bytes <= kMostArrayBytes;
}

bool Replay::will_return(Key& key, std::span<void*> bases, Stream& stream) {
  std::vector<uint8_t> may_differ(key.size());
  for (size_t i = 0; i < arrays_.size(); ++i) may_differ[arrays_[i].slot] = can_be_copied(i);
  const auto is_similar = [&](const Key& other) {
    for (size_t slot = 0; slot < key.size(); ++slot)
      if (other[slot] != key[slot] && !may_differ[slot]) return false;
    return true;
  };
  if (!std::any_of(seen_.begin(), seen_.end(), is_similar)) return false;
  bool added = false;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const uint32_t slot = arrays_[i].slot;
    const auto moved = [&](const Key& other) { return other[slot] != key[slot]; };
    if (!can_be_copied(i) || std::none_of(seen_.begin(), seen_.end(), moved)) continue;
    if (!add_copy(i, bases, stream)) continue;
    key[slot] = bases[slot];
    added = true;
  }
  return !added && std::find(seen_.begin(), seen_.end(), key) != seen_.end();
}

bool Replay::add_copy(size_t array, std::span<void*> bases, Stream& stream) {
  const auto [slot, given_bytes, is_output] = arrays_[array];
  const size_t bytes = std::max<size_t>(given_bytes, 1);
  if (copied_bytes_of_process.fetch_add(bytes) + bytes > kMostCopiedBytes) {
    copied_bytes_of_process -= bytes;
    return false;
  }
  copied_bytes_ += bytes;
  try {
    const MemoryScope scope(name_);
    copies_[array] = allocate_(bytes);
  } catch (const Error& error) {
    copied_bytes_of_process -= bytes;
    copied_bytes_ -= bytes;
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
    no_memory_ = true;
    return false;
  }
  count(stats_.copied_arrays, totals_of_process.copied_arrays);
  void* const copy = copies_[array]->data();
  if (!is_output) stream.copy(copy, given_[array], given_bytes);
  bases[slot] = copy;
  graphs_.clear();  // existing graphs use the caller's memory instead of the copy
  for (Key& key : seen_) key[slot] = copy;
  return true;
}

void Replay::remember(Key key) {
  if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) return;
  seen_.insert(seen_.begin(), std::move(key));
  if (seen_.size() > kMostSeen) seen_.pop_back();
}

bool Replay::may_record() {
  if (stats_.recorded < kFreeRecordings + stats_.replayed / kReplaysPerRecording) return true;
  if (!over_budget_) print_reason("its memory changes at each run");
  over_budget_ = true;
  return false;
}

bool Replay::record(std::span<void*> bases, Stream& stream, bool& lacks_scratch) {
  try {
    auto graph = graph_recorder()->record(
        stream, [&](Stream& s, const RandomState* random) { steps_(bases, {}, s, random); });
    graphs_.insert(graphs_.begin(), Entry{key_of(bases, stream), std::move(graph)});
    if (graphs_.size() > kMostGraphs) graphs_.pop_back();
    count(stats_.recorded, totals_of_process.recorded);
    return true;
  } catch (const Error& error) {
    // Afterwards the work runs step by step, which enlarges scratch memory or throws an operator's
    // error again.
    lacks_scratch =
        dynamic_cast<const ScratchShortage*>(&error) != nullptr && ++shortages_ <= kMostShortages;
    if (lacks_scratch) return false;
    gave_up_ = true;
    print_reason(error.what());
    return false;
  }
}

void Replay::print_reason(const char* reason) const {
  std::fprintf(stderr, "mxlite: %s runs without CUDA graphs: %s\n", name_, reason);
}

}  // namespace mxlite::graph
