// The task that runs the joined parts of one call of a graph: Note [Joined parts].
#pragma once
#include <atomic>
#include <vector>

#include "cpp/engine/deferred.h"
#include "cpp/graph/joined_parts.h"

namespace mxlite::graph {

class JoinedTask final : public engine::DeferredTask, public collective::CallOwner {
 public:
  JoinedTask(const char* task_name, engine::Origin task_origin, std::shared_ptr<const Split> split,
             const std::vector<JoinedParts::Step>& steps, std::vector<JoinedWork> work);

  // Gives all calls their numbers.
  void number_calls();
  void start() override { advance(); }
  void release_operands() noexcept override;
  void call_ended(size_t position, std::exception_ptr error) noexcept override;

 private:
  class Continuation;
  enum Signal : int { kNone, kNews, kSuspended };
  struct State {
    JoinedWork work;
    uint32_t needs = 0;
    std::exception_ptr error;         // a running call writes it before `ended`
    std::atomic<bool> ended = false;  // a call that runs has ended
  };

  // Runs what can run; finishes the task, or leaves it until a call ends.
  void advance();
  void run(size_t step);
  void end(size_t step);  // releases the steps that need this one
  void take_ended();
  // Returns false if the task should leave the worker.
  bool look_for_ranks();
  // Tells the other ranks that the calls which have not begun cannot run.
  void refuse_rest(const std::exception_ptr& cause) noexcept;
  std::exception_ptr with_place(size_t step, std::exception_ptr error) const noexcept;

  std::shared_ptr<const Split> split_;
  const std::vector<JoinedParts::Step>& steps_;
  std::vector<State> states_;
  std::vector<size_t> ready_;  // a heap, the first step on top
  std::vector<size_t> calls_;  // those that run
  size_t left_;
  bool started_ = false;
  std::exception_ptr error_;  // the first
  std::atomic<int> signal_{kNone};
};

}  // namespace mxlite::graph
