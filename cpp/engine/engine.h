// The dependency engine. Tasks declare which variables they read and write. A task runs as soon as
// the accesses before it allow, on a worker thread (or, in the naive engine, in the caller). Note
// [Errors] describes where failures appear.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "cpp/core/stream.h"
#include "cpp/engine/task.h"
#include "cpp/engine/var.h"

namespace mxlite::engine {

// Note [Errors]
// A failure stays with the values that the task writes. Tasks that use such a value (reads,
// updates) do not run and share the failure. Tasks that only overwrite such a value run and clear
// the failure. Every wait on a failed value raises the same mxlite::Error. An engine that runs
// tasks in the caller (naive, after fork, after stop) raises at push as well.

// Note [Stream tasks]
// A task of a stream worker submits work to a stream of a device and returns. When the task has
// returned, dependents on other streams are released: their streams wait for the task's stream, and
// the host does not wait. Dependents on the host, and waits, are released when the device has done
// the work. Only these dependents see a failure that the device reports later. The operands of a
// compute task are dropped when the task returns, because their memory is freed in the order of the
// task's stream. Copy tasks and tasks with keep_operands drop their operands when the device has
// done the work.

// Tasks that call Python use kCallback, because such tasks may wait for tasks of the other workers.
// The last three kinds are stream workers; every device has one worker of each of these kinds.
enum class WorkerKind : uint8_t { kCpu, kComm, kCallback, kCompute, kCopyIn, kCopyOut };
inline constexpr size_t kNumHostWorkers = 3;
const char* worker_name(WorkerKind kind);
inline bool is_stream_worker(WorkerKind kind) { return kind >= WorkerKind::kCompute; }

// Variables of one task. A variable may be in several lists and several times in one list.
struct Access {
  std::span<Var* const> reads;
  std::span<Var* const> overwrites;  // completely written: an earlier failure is dropped
  std::span<Var* const> updates;     // read and written in place: an earlier failure remains
};

struct PushOptions {
  WorkerKind worker = WorkerKind::kCpu;  // kComm runs tasks strictly in push order
  int device = 0;                        // index of the device, for stream workers
  bool may_inline = false;               // whether it may run in push after all dependencies
  size_t bytes = 0;            // allocated before the push and kept until the task has ended
  bool keep_operands = false;  // for compute tasks with memory that is not freed in stream order
};

struct EngineStats {
  uint64_t pushed = 0;
  uint64_t run_by_caller = 0;  // tasks that ran inside push (inline or naive)
  uint64_t in_flight = 0;
  uint64_t bytes_in_flight = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Returns the process's engine, which is never destroyed. MXLITE_ENGINE=naive|threaded selects
  // the engine; if it is unset, MXNET_ENGINE_TYPE does.
  static Engine& get();

  // Pushes a task. Blocks while too many tasks or bytes are in flight, except inside a task.
  // Thread-safe.
  virtual void push(TaskRef task, const Access& access, const PushOptions& options) = 0;
  template <class F>
  void push_fn(const char* name, const Access& access, const PushOptions& options, F&& fn) {
    push(TaskRef(new LambdaTask<std::decay_t<F>>(name, std::forward<F>(fn))), access, options);
  }

  // A wait that a task calls throws if the value cannot be ready before that task ends, because the
  // wait would never return.

  // Waits until the last write has ended. If the write failed, every call throws the failure.
  virtual void wait(Var& var) = 0;
  // Waits until the last write and all reads have ended, so that the host may write. Does not throw
  // the failure of the old value. After writing, call host_wrote.
  virtual void wait_for_write(Var& var) = 0;
  // Records that the host has written the whole memory: increments the version and drops an earlier
  // failure.
  virtual void host_wrote(Var& var) = 0;
  // Waits until no task is in flight. Throws the earliest failure that no wait has thrown yet, and
  // marks the other failures as seen, so that a second call succeeds.
  virtual void wait_all() = 0;
  // Waits like wait_all, but does not throw and leaves failures unseen. Returns false if a task
  // calls it.
  virtual bool drain() = 0;

  // Declares that the memory of `var` was allocated in the order of the worker's stream. Other
  // streams must wait for the work submitted to this stream before the call. Must be called before
  // the variable's first use.
  virtual void allocated_on(Var& var, WorkerKind worker, int device) = 0;

  // Completes queued work and joins the workers. Later pushes run in the caller. Idempotent.
  virtual void stop() = 0;
  virtual bool runs_in_caller() const = 0;  // true if naive, stopped, or in a forked child
  virtual EngineStats stats() const = 0;
};

// Called around all code that blocks. `release` releases the locks that other threads may need to
// continue (the GIL) and returns a token; `acquire` takes the token and locks them again. Set once,
// before the first push.
struct BlockingHooks {
  void* (*release)() = nullptr;
  void (*acquire)(void* token) = nullptr;
};
void set_blocking_hooks(BlockingHooks hooks);
inline void set_blocking_hooks(void* (*release)(), void (*acquire)(void*)) {
  set_blocking_hooks(BlockingHooks{release, acquire});
}

// Returns whether this process was forked from one that used the engine. Tasks then run in the
// caller.
bool in_forked_child();

// Returns whether the calling thread runs a task.
bool in_task();

// Returns the stream that the current task submits to. Returns null outside of stream tasks.
Stream* current_stream();

// Sets where stream workers get their streams (default: the accelerator). Must be called before the
// first use.
using StreamSource = Stream& (*)(int device, StreamKind kind);
void set_stream_source(StreamSource source);

}  // namespace mxlite::engine
