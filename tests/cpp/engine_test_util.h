// Helpers of the engine's tests.
#pragma once
#include <condition_variable>
#include <initializer_list>
#include <mutex>
#include <string>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/engine/engine.h"
#include "tests/cpp/errors.h"

namespace mxlite::engine {

// A gate at which tasks wait until a test opens it, so that the test decides when they end.
class Gate {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;  // guarded by mutex_
};

struct Vars {
  Vars(std::initializer_list<Var*> vars) : list(vars) {}
  std::vector<Var*> list;
};

// Pushes a task with the given reads, overwrites and updates; the other functions also take its
// options, or a name and options.
template <class F>
void push(Engine& engine, const char* name, const PushOptions& options, const Vars& reads,
          const Vars& overwrites, const Vars& updates, F&& fn) {
  engine.push_fn(name, {reads.list, overwrites.list, updates.list}, options, std::forward<F>(fn));
}
template <class F>
void push(Engine& engine, const PushOptions& options, const Vars& reads, const Vars& overwrites,
          const Vars& updates, F&& fn) {
  push(engine, "task", options, reads, overwrites, updates, std::forward<F>(fn));
}
template <class F>
void push(Engine& engine, const Vars& reads, const Vars& overwrites, const Vars& updates, F&& fn) {
  push(engine, "task", {}, reads, overwrites, updates, std::forward<F>(fn));
}

inline auto failing(const char* message) {
  return [message] { throw Error(ErrorKind::kValue, message); };
}

}  // namespace mxlite::engine
