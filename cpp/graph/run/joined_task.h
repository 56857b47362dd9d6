// The task that runs all segments of one call of a graph. See Note [Joined segments].
#pragma once
#include <atomic>
#include <vector>

#include "cpp/engine/deferred.h"
#include "cpp/graph/run/segments.h"

namespace mxlite::graph {

// The work of one segment in a run: either the task of a graph, or a collective call with its
// arrays.
struct SegmentWork {
  engine::TaskRef graph;
  collective::PendingCallRef call;
  NDArrayRef input, output;
};

// Note [Joined segments]
// A separate task for each small collective would cost more than the collective. Therefore one task
// runs all segments in the order of the graph, and begins a call as soon as its input is computed.
// While a call waits for other ranks, segments that do not need its result run. Afterwards the task
// polls for the other ranks for some microseconds. Then it leaves the worker to other tasks, and a
// new task continues when a call has ended. A call thus waits only for its input and for the
// operands of the whole graph. These operands must be computed before the graph is called.
// Otherwise ranks that call different process sets in different orders could wait for each other.
class JoinedTask final : public engine::DeferredTask, public collective::CallOwner {
 public:
  JoinedTask(engine::Origin task_origin, std::shared_ptr<const SegmentedGraph> graph,
             std::vector<SegmentWork> work);

  // Gives every call the next number of its process set.
  void number_calls();
  void start() override { advance(); }
  void release_operands() noexcept override;
  void call_ended(size_t position, std::exception_ptr error) noexcept override;

 private:
  class Continuation;
  enum Signal : int { kNone, kNews, kSuspended };
  struct State {
    SegmentWork work;
    uint32_t needs = 0;
    std::exception_ptr error;         // written by a call before it sets `ended`
    std::atomic<bool> ended = false;  // true when the segment's call has ended
  };

  // Runs all ready segments. Then finishes the task if all segments have ended; otherwise returns
  // until a call ends.
  void advance();
  void run(size_t segment);
  void end(size_t segment);  // makes the segments ready that waited only for this segment
  void take_ended();
  // Polls for the other ranks. Returns false if the task should leave the worker.
  bool look_for_ranks();
  // Tells the other ranks that this rank will not begin the remaining calls.
  void refuse_rest(const std::exception_ptr& cause) noexcept;
  std::exception_ptr with_place(size_t segment, std::exception_ptr error) const noexcept;

  std::shared_ptr<const SegmentedGraph> graph_;
  std::vector<State> states_;
  std::vector<size_t> ready_;  // segments that can run: a heap with the lowest index on top
  std::vector<size_t> calls_;  // segments whose calls are running
  size_t left_;
  bool started_ = false;
  std::exception_ptr error_;  // first error
  std::atomic<int> signal_{kNone};
};

}  // namespace mxlite::graph
