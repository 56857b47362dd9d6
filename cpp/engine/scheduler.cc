#include "cpp/engine/scheduler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/device_timer.h"
#include "cpp/core/launch_log.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/engine/deferred.h"
#include "cpp/engine/released_task.h"
#include "cpp/engine/running_task.h"

namespace mxlite::engine {
namespace {

constexpr size_t kMaxUnseen = 64;  // limits stored failures if a process never waits

thread_local Scheduler::RunScope* current_scope = nullptr;

uint64_t positive_env(const char* name, int64_t fallback) {
  const int64_t value = env_int(name, fallback);
  MX_CHECK(value > 0, "environment variable ", name, " must be a positive number, got ", value);
  return static_cast<uint64_t>(value);
}

}  // namespace

// Returns a shared failure that is used if there is no memory for a new failure.
FailureRef out_of_memory_failure() {
  static const FailureRef shared = make_ref<Failure>(
      std::make_exception_ptr(Error(ErrorKind::kOutOfMemory, "out of memory")), 0);
  return shared;
}

Scheduler::Scheduler()
    : max_tasks_(positive_env("MXLITE_ENGINE_MAX_TASKS", 4096)),
      max_bytes_(positive_env("MXLITE_ENGINE_MAX_BYTES", int64_t{8} << 20)) {
  queue({.worker = WorkerKind::kComm}).in_order = true;
  unseen_.reserve(kMaxUnseen);  // recording a failure must not throw
  out_of_memory_failure();      // creates the object while memory is available
}

WorkerQueue& Scheduler::queue(const PushOptions& options) {
  return is_stream_worker(options.worker) ? stream_state(options.worker, options.device).queue
                                          : queues_[static_cast<size_t>(options.worker)];
}

void Scheduler::for_each_queue(auto&& visit) {
  for (WorkerQueue& queue : queues_) visit(queue);
  streams_.for_each([&](StreamState& stream_state) { visit(stream_state.queue); });
}

Scheduler::RunScope::RunScope(Scheduler& scheduler, Task& task, bool on_worker)
    : scheduler_(scheduler), task_(task), on_worker_(on_worker), outer_(current_scope) {
  current_scope = this;
}

Scheduler::RunScope::~RunScope() { current_scope = outer_; }

Scheduler::RunScope* Scheduler::RunScope::innermost() { return current_scope; }

StreamState* Scheduler::RunScope::stream_state() const { return task_.queue_->stream_state; }

Stream* current_stream() {
  const auto* scope = Scheduler::RunScope::innermost();
  return scope && scope->stream_state() ? &scope->stream_state()->stream : nullptr;
}

Scheduler* Scheduler::RunScope::defer(bool deferred) {
  deferred_ = deferred;
  return &scheduler_;
}

bool Scheduler::dependencies_met(const Access& access) const {
  bool met = true;
  for_each_dependency(access, [&](Task& before, bool) { met &= before.done_; });
  return met;
}

void Scheduler::wait_on_stream(Task& task, StreamPoint point) {
  if (point.stream_state && point.stream_state != task.queue_->stream_state)
    task.waits_.push_back(point);
}

void Scheduler::connect(Task& task, const Access& access) {
  StreamState* const stream_state = task.queue_->stream_state;
  for_each_dependency(access, [&](Task& before, bool uses_value) {
    if (before.done_) {
      if (uses_value) task.inherit(before.failure_);
      return;
    }
    const bool released = stream_state && before.issued_;
    before.successors_.emplace_back(&task, uses_value, released);
    if (!released) {
      ++task.unmet_;
      return;
    }
    ++task.unfinished_;
    if (uses_value) task.inherit(before.failure_);
    wait_on_stream(task, {before.queue_->stream_state, before.point_});
  });
  if (!stream_state) return;
  for (const auto* list : {&access.reads, &access.overwrites, &access.updates})
    for (const Var* v : *list) wait_on_stream(task, v->allocated_);
}

void Scheduler::disconnect(const Task& task, const Access& access) noexcept {
  for_each_dependency(access, [&](Task& before, bool) {
    auto& edges = before.successors_;
    edges.erase(std::remove_if(edges.begin(), edges.end(),
                               [&](const Task::Edge& edge) { return edge.to() == &task; }),
                edges.end());
  });
}

void Scheduler::make_room_for_reader(Var& var) {
  auto& readers = var.readers_;
  if (readers.size() >= var.prune_at_) [[unlikely]] {
    auto finished = std::remove_if(readers.begin(), readers.end(),
                                   [](const TaskRef& reader) { return reader->done_; });
    readers.erase(finished, readers.end());
    var.prune_at_ = std::max<size_t>(2, 2 * readers.size());  // constant amortized cost per reader
  }
  if (readers.size() == readers.capacity()) [[unlikely]]
    readers.reserve(2 * readers.size() + 1);
}

void Scheduler::add_reader(Var& var, const TaskRef& task) noexcept {
  if (var.readers_.empty() || var.readers_.back() != task) var.readers_.push_back(task);
}

void Scheduler::set_writer(Var& var, const TaskRef& task) {
  if (var.last_writer_ == task) return;
  var.last_writer_ = task;
  var.readers_.clear();
  raise_version(var);
}

void Scheduler::forget_clean_writer(Var& var) {
  if (var.last_writer_ && var.last_writer_->done_ && !var.last_writer_->failure_)
    var.last_writer_.reset();
}

TaskRef Scheduler::last_writer(Var& var) {
  forget_clean_writer(var);
  return var.last_writer_;
}

void Scheduler::publish(const TaskRef& task, const Access& access) noexcept {
  for (Var* v : access.reads) {
    forget_clean_writer(*v);
    add_reader(*v, task);
  }
  for (Var* v : access.updates) set_writer(*v, task);
  for (Var* v : access.overwrites) set_writer(*v, task);
}

void Scheduler::admit(const TaskRef& ref, const Access& access, const PushOptions& options,
                      bool run_by_caller) {
  Task& task = *ref;
  MX_ASSERT(task.sequence_ == 0);  // a task must be pushed only once
  for (Var* v : access.reads) make_room_for_reader(*v);
  task.sequence_ = ++stats_.pushed;
  task.bytes_ = options.bytes;
  task.run_by_caller_ = run_by_caller;
  task.queue_ = &queue(options);
  task.keep_operands_ = is_stream_worker(options.worker) &&
                        (options.keep_operands || options.worker != WorkerKind::kCompute);
  try {
    connect(task, access);
  } catch (const std::bad_alloc&) {  // undoes the push
    disconnect(task, access);
    throw;
  }
  publish(ref, access);
  task.retain();  // the engine's reference, released in complete
  task.previous_ = task.queue_->newest;
  (task.previous_ ? task.previous_->next_ : task.queue_->oldest) = &task;
  task.queue_->newest = &task;
  ++stats_.in_flight;
  stats_.bytes_in_flight += task.bytes_;
  stats_.run_by_caller += run_by_caller;
}

bool Scheduler::ready(const Task& task) {
  return task.unmet_ == 0 && (!task.queue_->in_order || task.queue_->oldest == &task);
}

void Scheduler::enqueue(Task& task) {
  WorkerQueue& queue = *task.queue_;
  if (!queue.in_order) queue.add_ready(task);
  queue.wake();
}

bool Scheduler::execute(Task& task, bool on_worker) {
  StreamState* const stream_state = task.queue_->stream_state;
  const auto attempt = [&](auto&& action) {
    try {
      action();
    } catch (...) {
      if (stream_state && !task.failure_)
        task.failure_ = failure_of_device(task, std::current_exception());
      if (!task.failure_) task.failure_ = own_failure(task, decorate_current_exception(task));
    }
  };
  if (stream_state && !task.failure_) task.failure_ = broken_.find(stream_state->device);
  // Makes the stream wait for predecessors even if the task will not run, because its successors
  // rely on that.
  if (stream_state && !broken_.find(stream_state->device))
    attempt([&] {
      stream_state->stream.enter();
      for (const StreamPoint& point : task.waits_) stream_state->wait_for(point);
    });
  if (!task.failure_) {
    const RunningTask running(current_scope != nullptr);
    ProfileScope profile(task.name);
    DeviceScope device_profile(stream_state ? &stream_state->stream : nullptr, task.name);
    RunScope scope(*this, task, on_worker);
    std::optional<LaunchScope> launches;
    if (stream_state) launches.emplace(task.sequence_);
    attempt([&] { task.run(); });
    if (scope.deferred_) return false;
  }
  if (stream_state) task.point_ = stream_state->count_work();
  if (!task.keep_operands_) release_operands(task, task.failure_);
  return true;
}

void Scheduler::execute_and_synchronize(Task& task) {
  StreamState& stream_state = *task.queue_->stream_state;
  std::lock_guard filling(stream_state.filling);
  execute(task, /*on_worker=*/false);
  try {
    stream_state.stream.synchronize();
  } catch (...) {
    const Suspect suspect{&task, task.sequence_};
    const FailureRef failure =
        broken_.add(stream_state.device, std::current_exception(), {&suspect, 1});
    if (!task.failure_) task.failure_ = failure;
  }
  if (task.keep_operands_) task.release_operands();
}

void Scheduler::issue(Task& task) {
  StreamState& stream_state = *task.queue_->stream_state;
  task.stop_running();
  task.issued_ = true;
  task.next_ready_ = nullptr;
  if (stream_state.queue.running == &task) stream_state.queue.running = nullptr;
  bool wake_callers = limit_waiters_ > 0 && task.bytes_ > 0;
  // The limit applies to work that has not been submitted; the device's memory limits the rest.
  stats_.bytes_in_flight -= std::exchange(task.bytes_, 0);
  for (Task::Edge& edge : task.successors_) {
    Task& next = *edge.to();
    if (!next.queue_->stream_state || edge.released()) continue;
    edge = Task::Edge(&next, edge.uses_value(), /*released=*/true);
    ++next.unfinished_;
    if (edge.uses_value()) next.inherit(task.failure_);
    wait_on_stream(next, {&stream_state, task.point_});
    if (--next.unmet_ > 0) continue;
    if (next.run_by_caller_)
      wake_callers = true;
    else
      enqueue(next);
  }
  (stream_state.issued_last ? stream_state.issued_last->next_ready_ : stream_state.issued_first) =
      &task;
  stream_state.issued_last = &task;
  stream_state.issued.notify_one();
  if (wake_callers) progress_.notify_all();
}

void Scheduler::drop_kept_operands(Task* batch) {
  for (Task* task = batch; task; task = task->next_ready_)
    if (task->keep_operands_) task->release_operands();
}

FailureRef Scheduler::break_device(int device, const std::exception_ptr& error,
                                   const Task* submitting) {
  if (FailureRef known = broken_.find(device)) return known;
  std::vector<Suspect> suspects;
  std::unique_lock lock(streams_.mutex);  // locked because a push may add a stream
  streams_.for_each([&](StreamState& stream_state) {
    if (stream_state.device != device) return;
    const Task* const running = stream_state.queue.running;  // the running task may have submitted
                                                             // some of its work
    for (const Task* task = stream_state.queue.oldest; task; task = task->next_) {
      const bool in_stream = task->issued_ && !task->device_done_ && !task->failure_;
      if (in_stream || task == running || task == submitting)
        suspects.push_back({task, task->sequence_});
    }
  });
  lock.unlock();
  std::sort(suspects.begin(), suspects.end(),
            [](const Suspect& a, const Suspect& b) { return a.sequence < b.sequence; });
  return broken_.add(device, error, suspects);
}

// A call that submits work may return the error of earlier work. This function finds out whether it
// did.
FailureRef Scheduler::failure_of_device(const Task& task,
                                        const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kDevice) return nullptr;
  } catch (...) {
    return nullptr;
  }
  StreamState& stream_state = *task.queue_->stream_state;
  try {
    stream_state.stream.synchronize();
    return nullptr;
  } catch (...) {
  }
  try {
    const std::lock_guard lock(mutex);
    return break_device(stream_state.device, error, &task);
  } catch (const std::bad_alloc&) {
    return out_of_memory_failure();
  }
}

void Scheduler::device_done(Task* batch, const std::exception_ptr& error) {
  const FailureRef failure =
      error ? break_device(batch->queue_->stream_state->device, error) : nullptr;
  for (Task *next, *task = batch; task; task = next) {
    next = task->next_ready_;
    task->device_done_ = true;
    if (failure && !task->failure_) task->failure_ = failure;
    // Otherwise the task depends on a task of another stream that is done but not completed yet.
    if (task->unfinished_ == 0) complete(*task);
  }
}

FailureRef Scheduler::own_failure(const Task& task, std::exception_ptr error) noexcept {
  try {
    return make_ref<Failure>(std::move(error), task.sequence_);
  } catch (const std::bad_alloc&) {
    return out_of_memory_failure();
  }
}

void Scheduler::leave(Task& task) {
  auto& deferred = static_cast<DeferredTask&>(task);
  deferred.left_ = true;
  if (deferred.finished_)
    complete(task);
  else if (task.queue_->running == &task)
    task.queue_->running = nullptr;
}

void Scheduler::cancel_queued(const FailureRef& failure) {
  const std::lock_guard lock(streams_.mutex);
  for_each_queue([&](WorkerQueue& queue) {
    for (Task* task = queue.oldest; task; task = task->next_)
      if (!task->running_ && !task->issued_ && !task->run_by_caller_) task->inherit(failure);
  });
}

void Scheduler::finish(DeferredTask& task, const FailureRef& failure) {
  if (failure) task.failure_ = failure;
  task.finished_ = true;
  if (task.left_) complete(task);
}

void Scheduler::complete(Task& task) {
  std::vector<Task*> done;
  complete_one(task, done);
  while (!done.empty()) {
    Task& next = *done.back();
    done.pop_back();
    complete_one(next, done);
  }
}

void Scheduler::complete_one(Task& task, std::vector<Task*>& also_done) {
  task.stop_running();
  task.done_ = true;
  if (task.failure_ && task.failure_->sequence == task.sequence_) note_unseen(task.failure_);
  bool wake_callers = task.waiters_ > 0;
  for (const Task::Edge& edge : task.successors_) {
    Task& next = *edge.to();
    if (edge.uses_value()) next.inherit(task.failure_);
    if (edge.released()) {
      if (--next.unfinished_ == 0 && next.device_done_) also_done.push_back(&next);
      continue;
    }
    if (--next.unmet_ > 0) continue;
    if (next.run_by_caller_)
      wake_callers = true;
    else
      enqueue(next);
  }
  task.successors_ = {};
  WorkerQueue& queue = *task.queue_;
  unlink(task);
  if (queue.in_order && queue.oldest) {
    wake_callers |= queue.oldest->run_by_caller_;
    if (queue.has_work()) queue.wake();
  }
  --stats_.in_flight;
  stats_.bytes_in_flight -= task.bytes_;
  profile_count("Tasks in flight", static_cast<int64_t>(stats_.in_flight));
  wake_callers |= empty_waiters_ > 0 && stats_.in_flight == 0;
  wake_callers |= limit_waiters_ > 0 && below_low_mark();
  if (wake_callers) progress_.notify_all();
  task.release();
}

void Scheduler::unlink(Task& task) {
  WorkerQueue& queue = *task.queue_;
  (task.previous_ ? task.previous_->next_ : queue.oldest) = task.next_;
  (task.next_ ? task.next_->previous_ : queue.newest) = task.previous_;
  if (queue.running == &task) queue.running = nullptr;
}

void Scheduler::host_wrote(Var& var) {
  // If another thread has pushed a task since wait_for_write, that task stays the last writer.
  if (var.last_writer_ && var.last_writer_->done_) var.last_writer_.reset();
  raise_version(var);
}

void Scheduler::note_unseen(const FailureRef& failure) {
  std::erase_if(unseen_,
                [&](const FailureRef& f) { return f->seen || f->sequence <= seen_up_to_; });
  if (unseen_.size() < kMaxUnseen) unseen_.push_back(failure);
}

FailureRef Scheduler::see_failure(Task& task) {
  if (!task.failure_) return nullptr;
  // As in 1.x, after wait_all has thrown a failure, it does not throw earlier failures. Reading an
  // array with an earlier failure still throws that failure.
  task.failure_->seen = true;
  seen_up_to_ = std::max(seen_up_to_, task.failure_->sequence);
  return task.failure_;
}

FailureRef Scheduler::take_unseen_failure() {
  FailureRef earliest;
  for (const FailureRef& f : unseen_) {
    const bool raised = f->seen || f->sequence <= seen_up_to_;
    if (!raised && (!earliest || f->sequence < earliest->sequence)) earliest = f;
    f->seen = true;
  }
  unseen_.clear();
  return earliest;
}

void Scheduler::lock_for_fork() {
  mutex.lock();
  streams_.mutex.lock();
}

void Scheduler::unlock_after_fork() {
  streams_.mutex.unlock();
  mutex.unlock();
}

void Scheduler::abandon_unfinished() {
  auto lost = make_ref<Failure>(
      std::make_exception_ptr(Error(
          ErrorKind::kError,
          "the process was forked before this value was computed, and the computing thread exists "
          "only in the parent: wait for the array before the fork (wait_to_read, waitall)")),
      0);
  unseen_.clear();
  for_each_queue([&](WorkerQueue& queue) {
    for (Task *next, *task = queue.oldest; task; task = next) {
      next = task->next_;
      bool own = false;  // whether the forking thread runs this task and will complete it
      for (RunScope* s = current_scope; s; s = s->outer_) own |= &s->task_ == task;
      task->successors_ = {};
      if (own) continue;
      task->failure_ = lost;  // leaks the operands, because the lost thread may have been using
                              // them
      task->done_ = true;
      unlink(*task);
      --stats_.in_flight;
      stats_.bytes_in_flight -= task->bytes_;
    }
    queue.ready_first = queue.ready_last = queue.running = nullptr;
    queue.num_ready = 0;
    queue.asleep = false;
    queue.stopping = true;
    // Constructs a new object without destroying the old one, because the destructor would wait for
    // threads that do not exist in the child.
    new (&queue.work_arrived) std::condition_variable;
    if (!queue.stream_state) return;
    queue.stream_state->issued_first = queue.stream_state->issued_last = nullptr;
    new (&queue.stream_state->issued) std::condition_variable;
  });
  new (&progress_) std::condition_variable;
  empty_waiters_ = limit_waiters_ = 0;
}

}  // namespace mxlite::engine
