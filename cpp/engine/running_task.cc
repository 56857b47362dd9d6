#include "cpp/engine/running_task.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "cpp/engine/scheduler.h"

namespace mxlite::engine {
namespace {

constexpr int kForking = 1, kEnding = 2;

std::atomic<int> running = 0;
std::atomic<int> held = 0;  // kForking, kEnding or both
thread_local bool ends_process = false;
thread_local int uncounted = 0;  // running tasks of this thread that do not count

int own_tasks() { return Scheduler::RunScope::depth() - uncounted; }

// Waits until only tasks of this thread run.
void wait_for_other_tasks(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (running.load() > own_tasks() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

// Returns when this thread may run a task, which is counted then.
void wait_until_released(bool nested) {
  for (int now; (now = held.load()) != 0 && !ends_process && (now != kForking || !nested);) {
    running.fetch_sub(1);
    while (held.load() & kEnding) ::pause();
    held.wait(now);
    running.fetch_add(1);
  }
}

}  // namespace

RunningTask::RunningTask(bool nested) {
  running.fetch_add(1);  // comes before reading `held`, so that one of the two threads sees the
                         // other's write
  if (held.load()) [[unlikely]]
    wait_until_released(nested);
}

RunningTask::~RunningTask() { running.fetch_sub(1); }

UncountedTasks::UncountedTasks() : count_(own_tasks()) {
  uncounted += count_;
  running.fetch_sub(count_);
}

UncountedTasks::~UncountedTasks() {
  running.fetch_add(count_);
  uncounted -= count_;
}

void wait_for_running_tasks(double seconds) {
  ends_process = true;
  held.fetch_or(kEnding);
  wait_for_other_tasks(seconds);
}

void hold_tasks(double seconds) {
  held.fetch_or(kForking);
  wait_for_other_tasks(seconds);
}

void release_tasks() {
  held.fetch_and(~kForking);
  held.notify_all();
}

void forget_tasks_of_other_threads() { running.store(own_tasks()); }

}  // namespace mxlite::engine
