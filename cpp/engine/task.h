// A unit of work that the engine orders. Derived classes are operator calls, copies and
// executables.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cpp/base/intrusive_ptr.h"
#include "cpp/base/small_vector.h"
#include "cpp/engine/failure.h"

namespace mxlite::engine {

class Scheduler;
struct StreamState;
struct WorkerQueue;

// Position in a stream's submission order.
struct StreamPoint {
  StreamState* stream_state = nullptr;
  uint64_t number = 0;
};

// The line of the user's program that caused the task. The file name is interned.
struct Origin {
  const char* file = nullptr;
  int line = 0;
};

class Task : public RefCounted {
 public:
  explicit Task(const char* task_name = "", Origin task_origin = {})
      : name(task_name), origin(task_origin) {}

  // Called at most once, on a worker or (inline) in push. Not called if a value that the task uses
  // has failed. An exception becomes the failure of the values that the task writes. Must neither
  // call Python nor wait.
  virtual void run() = 0;
  // Drops arrays and storages. Called exactly once, after run or instead of it, before waiters
  // wake. Arrays that are not dropped would never be freed, because their variables refer to their
  // last task.
  virtual void release_operands() noexcept = 0;
  // Appends the description for error texts, such as "softmax (2, 3) float32, axis=1".
  virtual void describe(std::string& out) const { out += name; }

  // Thread-local free lists: tasks are the only allocation of a push.
  static void* operator new(size_t bytes);
  static void operator delete(void* block, size_t bytes) noexcept;

  const char* name;  // static or interned text
  Origin origin;

 private:
  friend class Scheduler;
  friend struct WorkerQueue;

  // A successor. Bit 0: the successor uses this task's value and inherits its failure. Bit 1: the
  // successor's stream waits for this task's stream, so the successor need not wait until this task
  // is done.
  class Edge {
   public:
    Edge(Task* to, bool uses_value, bool released = false)
        : bits_(reinterpret_cast<uintptr_t>(to) | uses_value | uintptr_t{released} << 1) {}
    Task* to() const { return reinterpret_cast<Task*>(bits_ & ~uintptr_t{3}); }
    bool uses_value() const { return bits_ & 1; }
    bool released() const { return bits_ & 2; }

   private:
    uintptr_t bits_;
  };

  void inherit(const FailureRef& failure) {
    FailureRef& mine = running_ ? late_failure_ : failure_;
    if (failure && (!mine || failure->sequence < mine->sequence)) mine = failure;
  }
  void stop_running() {
    running_ = false;
    inherit(std::exchange(late_failure_, {}));
  }

  // Guarded by the scheduler's mutex, except that only the running thread uses failure_ while
  // running_.
  FailureRef failure_;               // own or inherited failure
  FailureRef late_failure_;          // failure of a stream dependency, found during the run
  SmallVector<Edge, 4> successors_;  // edges do not own the tasks; the engine owns unfinished tasks
  uint64_t sequence_ = 0;            // number in push order; the first task has 1
  size_t bytes_ = 0;
  WorkerQueue* queue_ = nullptr;
  Task* previous_ = nullptr;  // previous unfinished task of the worker, in push order
  Task* next_ = nullptr;
  Task* next_ready_ = nullptr;  // links the ready list, and later the list of work in progress on
                                // the device
  uint64_t point_ = 0;          // stream tasks: value of `count` after this task's work
  SmallVector<StreamPoint, 1> waits_;  // stream tasks: points in other streams
  uint32_t unmet_ = 0;                 // number of dependencies that keep the task from running
  uint32_t unfinished_ = 0;  // number of dependencies that released the task but are not done
  uint32_t waiters_ = 0;     // number of threads that sleep until this task is done
  bool run_by_caller_ = false;
  bool running_ = false;
  bool issued_ = false;       // stream tasks: whether the work is in the stream
  bool device_done_ = false;  // stream tasks: whether the device has done the work
  bool keep_operands_ = false;
  bool done_ = false;
};
using TaskRef = IntrusivePtr<Task>;

template <class F>
class LambdaTask final : public Task {
 public:
  LambdaTask(const char* task_name, F fn) : Task(task_name), fn_(std::move(fn)) {}
  void run() override { (*fn_)(); }
  void release_operands() noexcept override { fn_.reset(); }

 private:
  std::optional<F> fn_;
};

}  // namespace mxlite::engine
