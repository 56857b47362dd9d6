#include "cpp/engine/fork.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "cpp/core/allocator.h"
#include "cpp/core/threads.h"
#include "cpp/engine/graph_engine.h"
#include "cpp/engine/running_task.h"

namespace mxlite::engine {
namespace {

struct Engines {
  std::mutex mutex;
  std::vector<GraphEngine*> all;  // guarded by mutex
};

// The object is leaked, because a fork may happen while static objects are being destroyed.
Engines& engines() {
  static Engines& instance = *new Engines;
  return instance;
}

std::atomic<bool> forked{false};

}  // namespace

bool in_forked_child() { return forked.load(std::memory_order_relaxed); }

void ForkHandlers::add(GraphEngine& engine) {
  static const int registered = [] {
    cpu_threads();  // reads the environment before the fork
    return pthread_atfork(prepare, in_parent, in_child);
  }();
  static_cast<void>(registered);
  std::lock_guard lock(engines().mutex);
  engines().all.push_back(&engine);
}

void ForkHandlers::remove(GraphEngine& engine) {
  std::lock_guard lock(engines().mutex);
  std::erase(engines().all, &engine);
}

void ForkHandlers::prepare() {
  engines().mutex.lock();
  hold_tasks(1.0);
  for (GraphEngine* engine : engines().all) engine->scheduler_.lock_for_fork();
  lock_cpu_allocator();
}

void ForkHandlers::in_parent() {
  unlock_cpu_allocator();
  for (GraphEngine* engine : engines().all) engine->scheduler_.unlock_after_fork();
  release_tasks();
  engines().mutex.unlock();
}

void ForkHandlers::in_child() {
  forked = true;
  forget_tasks_of_other_threads();
  set_cpu_threads(1);  // the child does not have the parent's OpenMP threads
  for (GraphEngine* engine : engines().all) {
    engine->scheduler_.abandon_unfinished();
    engine->after_fork_in_child();
  }
  in_parent();
}

}  // namespace mxlite::engine
