#include "cpp/graph/run/joined_task.h"

#include <algorithm>
#include <functional>

#include "cpp/engine/engine.h"
#include "cpp/engine/polling.h"
#include "cpp/engine/released_task.h"

namespace mxlite::graph {

// Continues a JoinedTask that has returned before all of its segments have ended.
class JoinedTask::Continuation final : public engine::Task {
 public:
  explicit Continuation(JoinedTask& joined) : Task(joined.name, joined.origin), joined_(&joined) {}

  void run() override { std::exchange(joined_, nullptr)->advance(); }
  void release_operands() noexcept override {
    if (!joined_) return;
    // If this task is dropped because the process ends, the JoinedTask fails.
    const IntrusivePtr<JoinedTask> joined = std::move(joined_);
    joined->refuse_rest(engine::failure_of_released_task());
    joined->finish(engine::failure_of_released_task());
  }

 private:
  IntrusivePtr<JoinedTask> joined_;
};

JoinedTask::JoinedTask(engine::Origin task_origin, std::shared_ptr<const SegmentedGraph> graph,
                       std::vector<SegmentWork> work)
    : DeferredTask(graph->task_name, task_origin),
      graph_(std::move(graph)),
      states_(work.size()),
      left_(work.size()) {
  // Reserves memory now, because nothing may fail after calls have got their numbers.
  ready_.reserve(work.size());
  calls_.reserve(work.size());
  for (size_t i = 0; i < work.size(); ++i) {
    states_[i].work = std::move(work[i]);
    states_[i].needs = graph_->segments[i].needs;
    if (states_[i].needs == 0) ready_.push_back(i);  // in ascending order, so it is a heap
  }
}

void JoinedTask::number_calls() {
  for (State& state : states_)
    if (state.work.call) state.work.call->number();
}

void JoinedTask::advance() {
  started_ = true;
  const engine::PollingScope polls;  // this task polls for other ranks, so the calls need not poll
  for (;;) {
    signal_.exchange(kNone, std::memory_order_acq_rel);
    take_ended();
    while (!ready_.empty()) {
      std::pop_heap(ready_.begin(), ready_.end(), std::greater<>());
      const size_t segment = ready_.back();
      ready_.pop_back();
      run(segment);
      if (signal_.load(std::memory_order_acquire) == kNews) {
        signal_.exchange(kNone, std::memory_order_acq_rel);
        take_ended();
      }
    }
    if (left_ == 0) return finish(error_);
    if (!look_for_ranks()) return;
  }
}

bool JoinedTask::look_for_ranks() {
  const engine::PollHook poll = engine::poll_hook();
  do {
    if (signal_.load(std::memory_order_acquire) == kNews) return true;
  } while (poll && poll(/*idle=*/true));
  int none = kNone;
  return !signal_.compare_exchange_strong(none, kSuspended, std::memory_order_acq_rel);
}

void JoinedTask::call_ended(size_t position, std::exception_ptr error) noexcept {
  State& state = states_[position];
  state.error = std::move(error);
  state.ended.store(true, std::memory_order_release);
  if (signal_.exchange(kNews, std::memory_order_acq_rel) != kSuspended) return;
  try {
    const engine::UnlimitedPushes unlimited;  // the push must not wait, because workers may wait
                                              // for this thread
    engine::Engine::get().push(make_ref<Continuation>(*this), {}, {});
  } catch (...) {  // not enough memory for the continuation task
    const std::exception_ptr cause = std::current_exception();
    refuse_rest(cause);
    finish(cause);
  }
}

void JoinedTask::take_ended() {
  std::erase_if(calls_, [this](size_t segment) {
    State& state = states_[segment];
    if (!state.ended.load(std::memory_order_acquire)) return false;
    if (state.error) state.error = with_place(segment, std::move(state.error));
    end(segment);
    return true;
  });
}

void JoinedTask::run(size_t segment) {
  State& state = states_[segment];
  SegmentWork& work = state.work;
  try {
    if (work.graph) {
      if (!state.error) work.graph->run();
    } else if (work.call && state.error) {
      work.call->refuse(state.error);
    } else if (work.call) {
      calls_.push_back(segment);
      return work.call->begin(*this, segment, engine::TaskRef(this), work.input, work.output);
    }
  } catch (...) {
    state.error = std::current_exception();
    if (work.call) calls_.pop_back();
  }
  end(segment);
}

void JoinedTask::end(size_t segment) {
  State& state = states_[segment];
  if (state.work.graph) state.work.graph->release_operands();
  state.work = {};
  if (state.error && !error_) error_ = state.error;
  --left_;
  for (const uint32_t next : graph_->segments[segment].next) {
    State& later = states_[next];
    if (state.error && !later.error) later.error = state.error;
    if (--later.needs > 0) continue;
    ready_.push_back(next);
    std::push_heap(ready_.begin(), ready_.end(), std::greater<>());
  }
}

std::exception_ptr JoinedTask::with_place(size_t segment, std::exception_ptr error) const noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    try {
      Error placed = e;  // a copy, because other threads may read `e`
      placed.add_context(
          str("while running node ", graph_->segments[segment].name, " of ", graph_->whole.name));
      return std::make_exception_ptr(std::move(placed));
    } catch (...) {  // not enough memory for the text
      return error;
    }
  } catch (...) {
    return error;
  }
}

void JoinedTask::refuse_rest(const std::exception_ptr& cause) noexcept {
  for (size_t i = 0; i < states_.size(); ++i) {
    SegmentWork& work = states_[i].work;
    const bool runs = std::find(calls_.begin(), calls_.end(), i) != calls_.end();
    if (work.call && !runs) work.call->refuse(cause);
  }
}

void JoinedTask::release_operands() noexcept {
  if (!started_) refuse_rest(engine::failure_of_released_task());
  for (State& state : states_) {
    if (state.work.graph) state.work.graph->release_operands();
    state.work = {};
  }
  graph_.reset();
}

}  // namespace mxlite::graph
