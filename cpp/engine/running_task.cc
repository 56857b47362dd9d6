#include "cpp/engine/running_task.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace mxlite::engine {
namespace {

std::atomic<int> running = 0;
std::atomic<bool> held = false;  // while the process ends or forks
std::atomic<bool> ending = false;
thread_local bool ends_process = false;

// Waits until at most `rest` tasks run.
void wait_for_tasks(int rest, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (running.load() > rest && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

// Returns when this thread may run a task, which is counted then.
void wait_until_released(bool nested) {
  while (held.load() && !ends_process && (ending.load() || !nested)) {
    running.fetch_sub(1);
    while (ending.load()) ::pause();
    held.wait(true);
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

void wait_for_running_tasks(double seconds) {
  ends_process = true;
  ending.store(true);
  held.store(true);
  wait_for_tasks(0, seconds);
}

void hold_tasks(int own, double seconds) {
  held.store(true);
  wait_for_tasks(own, seconds);
}

void release_tasks() {
  if (ending.load()) return;
  held.store(false);
  held.notify_all();
}

void forget_tasks_of_other_threads(int own) { running.store(own); }

}  // namespace mxlite::engine
