#include "cpp/engine/running_task.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace mxlite::engine {
namespace {

std::atomic<int> running = 0;
std::atomic<bool> ending = false;
std::atomic<bool> forking = false;
thread_local bool ends_process = false;
thread_local int own_tasks = 0;  // running tasks of this thread; each runs inside the one before

// Waits until at most `rest` tasks run.
void wait_for_tasks(int rest, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (running.load() > rest && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

}  // namespace

RunningTask::RunningTask() {
  while (true) {
    running.fetch_add(1);  // comes before reading `ending` and `forking`, so that one of the two
                           // threads sees the other's write
    const bool ends = ending.load() && !ends_process;
    if (!ends && (!forking.load() || own_tasks > 0)) break;
    running.fetch_sub(1);
    while (ends) ::pause();
    forking.wait(true);
  }
  ++own_tasks;
}

RunningTask::~RunningTask() {
  --own_tasks;
  running.fetch_sub(1);
}

void wait_for_running_tasks(double seconds) {
  ends_process = true;
  ending.store(true);
  wait_for_tasks(0, seconds);
}

void hold_tasks(double seconds) {
  forking.store(true);
  wait_for_tasks(own_tasks, seconds);
}

void release_tasks() {
  forking.store(false);
  forking.notify_all();
}

void forget_tasks_of_other_threads() { running.store(own_tasks); }

}  // namespace mxlite::engine
