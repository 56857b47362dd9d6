// Runs the steps of an executable on a GPU: one by one at first, as a recorded graph once the same
// addresses have come twice. Small inputs whose address changes are copied to fixed memory first;
// large ones (activations that forward saved) have a graph for each of a few addresses.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cpp/graph/device_graph.h"
#include "cpp/ndarray/storage.h"

namespace mxlite::graph {

class Replay {
 public:
  // Base addresses of a run; those of inputs are a range of them.
  struct Inputs {
    uint32_t first = 0;
    std::vector<size_t> bytes;
  };
  using StepsFn = std::function<void(std::span<void* const> bases, RandomState random,
                                     Stream& stream, const RandomState* device_random)>;
  Replay(const char* name, Device device, Inputs inputs, StepsFn steps);

  // Must be called by the thread that submits to the stream. Changes the bases of copied inputs.
  void run(std::span<void*> bases, RandomState random, Stream& stream);

  struct Stats {
    int64_t step_by_step = 0, recorded = 0, replayed = 0, staged_inputs = 0;
  };
  const Stats& stats() const { return stats_; }
  static Stats totals();  // sums over all objects in this process

 private:
  using Key = std::vector<void*>;  // addresses inside a graph: bases, scratch memory
  struct Entry {
    Key key;
    std::unique_ptr<DeviceGraph> graph;
  };

  void copy_staged(std::span<void*> bases, Stream& stream);
  // Returns an earlier key that is equal, or else one that differs only in inputs that may be
  // copied; null: none.
  const Key* find_similar(const Key& key) const;
  bool stage_changed(const Key& before, std::span<void*> bases, Stream& stream);
  void remember(Key key);
  bool record(std::span<void*> bases, Stream& stream);
  void give_up(const char* reason);
  bool may_be_staged(size_t slot) const;
  Key key_of(std::span<void* const> bases, Stream& stream) const;

  const char* const name_;
  const Device device_;
  const Inputs inputs_;
  const StepsFn steps_;
  std::vector<StorageRef> stages_;  // by input; null: the caller's memory is used
  std::vector<Entry> graphs_;       // last used first
  std::vector<Key> seen_;           // recent runs without a graph
  bool gave_up_ = false;
  Stats stats_;
};

}  // namespace mxlite::graph
