// The dependency engine: tasks declare which variables they read and write, and run as soon as the
// order of these allows, on worker threads (or in the caller: naive). Note [Errors] describes where
// failures appear.
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
// updates) do not run and share the failure; tasks that only come after it (overwrites) run and
// clear it. Every wait on a failed value raises the same mxlite::Error. An engine that runs tasks
// in the caller (naive, after fork, after stop) raises at push as well.

// Note [Stream tasks]
// A task of a stream worker submits work to a stream of a device and returns. Its dependents on
// streams follow as soon as it has returned: their stream waits for its stream, and the host does
// not wait. Its dependents on the host, and waits, follow when the device has done the work; a
// failure that the device reports only then reaches those as well. Operands are dropped when the
// task of a compute worker has returned, because their memory is freed in that stream's order (and
// when the device is done for copies, and with keep_operands).

// kCallback is for tasks that call Python: they may wait for tasks of the other workers. The last
// three are stream workers; every device has one of each.
enum class WorkerKind : uint8_t { kCpu, kComm, kCallback, kCompute, kCopyIn, kCopyOut };
inline constexpr size_t kNumHostWorkers = 3;
const char* worker_name(WorkerKind kind);
inline bool is_stream_worker(WorkerKind kind) { return kind >= WorkerKind::kCompute; }

// A variable may be in several lists and several times in one.
struct Access {
  std::span<Var* const> reads;
  std::span<Var* const> overwrites;  // fully written: an old error is dropped
  std::span<Var* const> updates;     // read and written in place: an old error stays
};

struct PushOptions {
  WorkerKind worker = WorkerKind::kCpu;  // kComm runs strictly in order of push
  int device = 0;                        // index of a stream worker's device
  bool may_inline = false;               // may run in push if all dependencies are done
  size_t bytes = 0;                      // allocated before the push, kept until the task is done
  bool keep_operands = false;  // compute tasks: for memory that is not freed in stream order
};

struct EngineStats {
  uint64_t pushed = 0;
  uint64_t run_by_caller = 0;  // inline and naive
  uint64_t in_flight = 0;
  uint64_t bytes_in_flight = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // The process's engine, never destroyed. MXLITE_ENGINE=naive|threaded, else MXNET_ENGINE_TYPE.
  static Engine& get();

  // Thread-safe. Blocks while too many tasks or bytes are in flight, but not inside a task.
  virtual void push(TaskRef task, const Access& access, const PushOptions& options) = 0;
  template <class F>
  void push_fn(const char* name, const Access& access, const PushOptions& options, F&& fn) {
    push(TaskRef(new LambdaTask<std::decay_t<F>>(name, std::forward<F>(fn))), access, options);
  }

  // The waits throw an error instead of a deadlock if a task calls them for a value that cannot be
  // ready before that task ends.

  // Waits until the last write is done; raises its failure every time.
  virtual void wait(Var& var) = 0;
  // Waits until the last write and all reads are done: the host may then write. Does not raise the
  // failure of the old value; after writing, call host_wrote.
  virtual void wait_for_write(Var& var) = 0;
  // Records that the host has written all of the memory: raises the version, drops an old failure.
  virtual void host_wrote(Var& var) = 0;
  // Waits until nothing is in flight; raises the earliest failure that no wait has raised. Failures
  // that came with it count as seen: a second call succeeds.
  virtual void wait_all() = 0;
  // Waits like wait_all, but raises nothing and leaves failures unseen. Returns false in a task.
  virtual bool drain() = 0;

  // Declares that the memory of `var` was allocated in the order of that worker's stream: others
  // wait for what the stream had been given. Must be called before the variable's first use.
  virtual void allocated_on(Var& var, WorkerKind worker, int device) = 0;

  // Finishes queued work and joins the workers; later pushes run in the caller. Idempotent.
  virtual void stop() = 0;
  virtual bool runs_in_caller() const = 0;  // naive, stopped, or in a forked child
  virtual EngineStats stats() const = 0;
};

// Called around everything that blocks: release gives up what other threads may need to make
// progress (the GIL) and returns a token, acquire takes it back. Set once, before the first push.
struct BlockingHooks {
  void* (*release)() = nullptr;
  void (*acquire)(void* token) = nullptr;
};
void set_blocking_hooks(BlockingHooks hooks);
inline void set_blocking_hooks(void* (*release)(), void (*acquire)(void*)) {
  set_blocking_hooks(BlockingHooks{release, acquire});
}

// Returns whether this process is a fork of one that used the engine; tasks then run in the caller.
bool in_forked_child();

// Returns whether the calling thread runs a task.
bool in_task();

// Returns the stream that the current task submits to; null outside of stream tasks.
Stream* current_stream();

// Sets where stream workers get their streams (default: the accelerator). Must be called before the
// first use.
using StreamSource = Stream& (*)(int device, StreamKind kind);
void set_stream_source(StreamSource source);

}  // namespace mxlite::engine
