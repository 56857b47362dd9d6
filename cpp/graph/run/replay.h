// Runs the steps of an executable on a GPU: one by one at first, as a recorded graph once the same
// addresses have come twice. Addresses are compared exactly. Arrays of the caller that move from
// run to run get memory that stays, from or to which each run copies; arrays that are too large
// for that have a graph for each of a few addresses. So have outputs whose memory the caller keeps
// (gradients), unless they move as often as others.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpp/graph/run/device_graph.h"
#include "cpp/ndarray/storage.h"

namespace mxlite::graph {

class Replay {
 public:
  // An input or output of the caller, which may lie elsewhere in every run. Other memory of a run
  // returns to the same few addresses.
  struct CallerArray {
    uint32_t slot = 0;  // position of its address among the bases of a run
    size_t bytes = 0;
    bool is_output = false;
  };
  using StepsFn = std::function<void(std::span<void* const> bases, RandomState random,
                                     Stream& stream, const RandomState* device_random)>;
  using AllocateFn = std::function<StorageRef(size_t bytes)>;  // for copies of arrays
  Replay(const char* name, AllocateFn allocate, std::vector<CallerArray> arrays, StepsFn steps);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Must be called by the thread that submits to the stream. Changes the bases of copied arrays.
  // kept: by slot, 1 for outputs whose memory the caller keeps from run to run; may be empty.
  void run(std::span<void*> bases, RandomState random, Stream& stream,
           std::span<const uint8_t> kept = {});

  struct Stats {
    int64_t step_by_step = 0, recorded = 0, replayed = 0;
    int64_t copied_arrays = 0;  // inputs and outputs that have got memory that stays
  };
  const Stats& stats() const { return stats_; }
  static Stats totals();  // sums over all objects in this process

 private:
  using Key = std::vector<void*>;  // addresses inside a graph: bases, scratch memory
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
  // Returns whether a graph for these addresses will be replayed: an earlier run had them. Arrays
  // that can be copied and have moved lately get their memory here; this run is then the first in
  // it.
  bool will_return(Key& key, std::span<void*> bases, Stream& stream);
  bool add_copy(size_t array, std::span<void*> bases, Stream& stream);
  void remember(Key key);
  bool may_record();
  // Returns false if the steps cannot be recorded. lacks_scratch: they may be in a later run.
  bool record(std::span<void*> bases, Stream& stream, bool& lacks_scratch);
  void launch_first(std::span<void* const> bases, RandomState random, Stream& stream);
  void print_reason(const char* reason) const;  // why it runs without graphs
  Key key_of(std::span<void* const> bases, Stream& stream) const;

  const char* const name_;
  const AllocateFn allocate_;
  const std::vector<CallerArray> arrays_;
  const StepsFn steps_;
  std::vector<StorageRef> copies_;  // by caller's array; null: a run uses the caller's memory
  std::vector<void*> given_;        // by caller's array: its address in the present run
  std::vector<uint8_t> stays_;      // by caller's array: kept by the caller, and seldom moved
  std::vector<std::array<int64_t, 3>> moves_;  // by caller's array: last runs in which it moved
  int64_t runs_ = 0;
  size_t copied_bytes_ = 0;
  std::vector<Entry> graphs_;  // last used first
  std::vector<Key> seen_;      // recent runs without a graph
  int shortages_ = 0;          // recordings that lacked scratch memory
  bool gave_up_ = false;       // some work cannot be recorded
  bool over_budget_ = false;   // too many recordings at some time
  bool no_memory_ = false;     // an allocation of a copy has failed; no other one is tried
  Stats stats_;
};

}  // namespace mxlite::graph
