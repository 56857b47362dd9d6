// The task that runs all segments of one call of a graph: Note [Joined segments].
#pragma once
#include <atomic>
#include <vector>

#include "cpp/engine/deferred.h"
#include "cpp/graph/run/segments.h"

namespace mxlite::graph {

// A segment's share of a run: the task of a graph, or a call with its arrays.
struct SegmentWork {
  engine::TaskRef graph;
  collective::PendingCallRef call;
  NDArrayRef input, output;
};

// Note [Joined segments]
// Where collectives are small, tasks of their own take longer than the calls. One task runs all
// segments in the order of the graph, and begins a call as soon as its input is there. While a call
// lacks other ranks, segments that do not need its result run; then the task looks for the other
// ranks for some microseconds; then it leaves the worker to other tasks, and a new task continues
// when a call has ended. So a call waits only for what it needs, and for the operands of the whole
// graph. These must be computed when the graph is called: otherwise ranks that call different
// process sets in different orders could wait for each other.
class JoinedTask final : public engine::DeferredTask, public collective::CallOwner {
 public:
  JoinedTask(engine::Origin task_origin, std::shared_ptr<const SegmentedGraph> graph,
             std::vector<SegmentWork> work);

  // Gives all calls their numbers.
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
    std::exception_ptr error;         // a running call writes it before `ended`
    std::atomic<bool> ended = false;  // a call that runs has ended
  };

  // Runs what can run; finishes the task, or leaves it until a call ends.
  void advance();
  void run(size_t segment);
  void end(size_t segment);  // releases the segments that need this one
  void take_ended();
  // Returns false if the task should leave the worker.
  bool look_for_ranks();
  // Tells the other ranks that the calls which have not begun cannot run.
  void refuse_rest(const std::exception_ptr& cause) noexcept;
  std::exception_ptr with_place(size_t segment, std::exception_ptr error) const noexcept;

  std::shared_ptr<const SegmentedGraph> graph_;
  std::vector<State> states_;
  std::vector<size_t> ready_;  // a heap, the first segment on top
  std::vector<size_t> calls_;  // those that run
  size_t left_;
  bool started_ = false;
  std::exception_ptr error_;  // the first
  std::atomic<int> signal_{kNone};
};

}  // namespace mxlite::graph
