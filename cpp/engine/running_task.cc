#include "cpp/engine/running_task.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace mxlite::engine {
namespace {

std::atomic<int> running = 0;
std::atomic<bool> ending = false;
thread_local bool ends_process = false;
// Resets the count in a forked child, which does not have the threads that ran tasks.
[[maybe_unused]] const int at_fork = ::pthread_atfork(nullptr, nullptr, [] { running.store(0); });

}  // namespace

RunningTask::RunningTask() {
  running.fetch_add(1);  // comes before reading `ending`, so that one of the two threads sees the
                         // other's write
  if (!ending.load() || ends_process) return;
  running.fetch_sub(1);
  while (true) ::pause();
}

RunningTask::~RunningTask() { running.fetch_sub(1); }

void wait_for_running_tasks(double seconds) {
  ends_process = true;
  ending.store(true);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (running.load() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

}  // namespace mxlite::engine
