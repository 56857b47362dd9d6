// Runs the steps of an executable on a GPU. The steps run one by one at first, and as a recorded
// graph once the same addresses have occurred twice. If an array of the caller moves from run to
// run, the graph uses a fixed copy, and each run copies from or to this copy. For arrays that are
// too large to copy, each of a few addresses gets its own graph. The same applies to outputs whose
// memory the caller keeps (gradients), unless they move often.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cpp/graph/run/device_graph.h"
#include "cpp/ndarray/storage.h"

namespace mxlite::graph {

class Replay {
 public:
  // An input or output of the caller. Its address may be different in every run. Other memory of a
  // run has only a few different addresses.
  struct CallerArray {
    uint32_t slot = 0;  // position of its address among the `bases` of a run
    size_t bytes = 0;
    bool is_output = false;
  };
  using StepsFn = std::function<void(std::span<void* const> bases, RandomState random,
                                     Stream& stream, const RandomState* device_random)>;
  using AllocateFn = std::function<StorageRef(size_t bytes)>;  // allocates copies of arrays
  Replay(const char* name, AllocateFn allocate, std::vector<CallerArray> arrays, StepsFn steps);
  ~Replay();
  Replay& operator=(Replay&&) = delete;  // neither copied nor moved

  // Call on the thread that submits to the stream. Sets the bases of copied arrays to their copies.
  // `kept` is 1 for each slot of an output whose memory the caller keeps from run to run. `kept`
  // may be empty.
  void run(std::span<void*> bases, RandomState random, Stream& stream,
           std::span<const uint8_t> kept = {});

  struct Stats {
    int64_t step_by_step = 0, recorded = 0, replayed = 0;
    int64_t copied_arrays = 0;  // inputs and outputs that have a fixed copy
  };
  const Stats& stats() const { return stats_; }
  static Stats totals();  // sums over all objects of this process

 private:
  using Key = std::vector<void*>;  // addresses inside a graph: bases and scratch memory
  struct Entry {
    Key key;
    std::unique_ptr<DeviceGraph> graph;
  };

  void copy_inputs(std::span<void*> bases, Stream& stream) const;
  void copy_outputs(std::span<void* const> bases, Stream& stream) const;
  void run_step_by_step(std::span<void*> bases, RandomState random, Stream& stream);
  void run_in_copies(std::span<void*> bases, RandomState random, Stream& stream);
  void note_addresses(std::span<void* const> bases, std::span<const uint8_t> kept);
  bool can_be_copied(size_t array) const;
  // Returns whether an earlier run had the same addresses, so that a graph for these addresses
  // should exist. Copies arrays that can be copied and have moved lately. This run is then the
  // first run that uses the copies.
  bool will_return(Key& key, std::span<void*> bases, Stream& stream);
  bool add_copy(size_t array, std::span<void*> bases, Stream& stream);
  void remember(Key key);
  bool may_record();
  // Returns false if the steps cannot be recorded. Sets `lacks_scratch` if a later run may be able
  // to record them.
  bool record(std::span<void*> bases, Stream& stream, bool& lacks_scratch);
  void launch_first(std::span<void* const> bases, RandomState random, Stream& stream);
  void print_reason(const char* reason) const;  // prints why steps run without graphs
  Key key_of(std::span<void* const> bases, Stream& stream) const;

  const char* const name_;
  const AllocateFn allocate_;
  const std::vector<CallerArray> arrays_;
  const StepsFn steps_;
  std::vector<StorageRef> copies_;  // for each caller's array: its copy, or null
  std::vector<void*> given_;        // for each caller's array: its address in this run
  std::vector<uint8_t> stays_;  // for each caller's array: whether the caller keeps it and seldom
                                // moves it
  std::vector<std::array<int64_t, 3>> moves_;  // for each caller's array: the last 3 runs in which
                                               // its address changed
  int64_t runs_ = 0;
  size_t copied_bytes_ = 0;
  std::vector<Entry> graphs_;  // most recently used first
  std::vector<Key> seen_;      // addresses of recent runs without a graph
  int shortages_ = 0;          // number of recordings that lacked scratch memory
  bool gave_up_ = false;       // whether some work cannot be recorded
  bool over_budget_ = false;   // whether there were too many recordings
  bool no_memory_ = false;     // whether allocating a copy has failed; then no more copies are made
  Stats stats_;
};

}  // namespace mxlite::graph
