// Runs all parts of a graph that was cut at collectives in one task of the engine: where calls are
// small, tasks of their own take longer than the calls.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cpp/graph/split.h"
#include "cpp/graph/walk.h"
#include "cpp/ops/collective/processes.h"

namespace mxlite::graph {

// The work of one step of a run: a graph's, or a call with its arrays.
struct JoinedWork {
  engine::TaskRef graph;
  collective::PendingCallRef call;
  NDArrayRef input, output;
};

// Note [Joined parts]
// The task runs the parts in the order of the graph, and begins a call as soon as its input is
// there. While a call lacks other ranks, parts and calls that do not need its result run; then the
// task looks for the other ranks for some microseconds; then it leaves the worker to other tasks,
// and a new task continues when a call has ended. So a call waits only for what it needs, and for
// the operands of the whole graph. These must be computed when the graph is called: otherwise ranks
// that call different process sets in different orders could wait for each other.
class JoinedParts {
 public:
  // `split` must outlive this object.
  explicit JoinedParts(const Split& split);

  // Pushes the task and returns the graph's outputs. Returns nothing if the parts must be tasks of
  // their own: the graph has host operators, changes parameters, has calls that need copies, or
  // outputs that do not need all calls; operands are not computed yet; or this process has joined
  // no job. Not for recording. `owner` is the split.
  std::optional<NDArrays> push(std::shared_ptr<const Split> owner,
                               std::span<const NDArrayRef> inputs, const ArrayList& parameters,
                               engine::Origin origin) const;

 private:
  friend class JoinedTask;
  using Slot = Route::Slot;
  struct Step {
    const Part* part = nullptr;
    std::vector<Slot> inputs, outputs;
    std::vector<uint32_t> next;  // steps that need an output of this one
    uint32_t needs = 0;          // number of steps whose outputs this one needs
    // The rest is of calls only.
    collective::Terms terms;
    bool foreign_input = false;  // the graph's input or parameter
    bool is_result = false;      // the graph returns the output
    bool may_inline = false;
  };

  std::optional<NDArrays> prepare_and_push(std::shared_ptr<const Split> owner,
                                           std::span<const NDArrayRef> inputs,
                                           const ArrayList& parameters,
                                           engine::Origin origin) const;
  bool add_step(const Part& part);  // returns false if it must be a task of its own
  void connect();
  // Fills in the calls of a run. Returns false if the job has changed so that they do not fit.
  bool make_calls(collective::Processes& processes, std::vector<JoinedWork>& work) const;

  const Split& split_;
  const char* const name_;
  const ValueSlots slots_;
  std::vector<Slot> alias_;  // by slot: that of an equal value, for operators that return theirs
  std::vector<Step> steps_;
  std::vector<std::pair<const char*, int32_t>> sets_;  // process sets, and an operator that uses it
  bool possible_ = true;
  mutable std::mutex mutex_;
  mutable std::vector<collective::PreparedCallRef> prepared_;  // by step; guarded by mutex_
};

}  // namespace mxlite::graph
