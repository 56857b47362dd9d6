#include "cpp/engine/worker.h"

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>

#include "cpp/base/error.h"
#include "cpp/engine/polling.h"

namespace mxlite::engine {
namespace {

// Blocks signals in a scope in which a thread is started, because threads inherit the signal mask.
// The system delivers signals to the program's own threads.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_thread(const std::string& name, std::function<void()> run) {
  AllSignalsBlocked blocked;
  try {
    std::thread thread(std::move(run));
    pthread_setname_np(thread.native_handle(), ("mxlite-" + name).c_str());
    return thread;
  } catch (const std::system_error& e) {
    fail(ErrorKind::kError, "engine: cannot start the thread of worker ", name, ": ", e.what());
  }
}

const char* worker_name(WorkerKind kind) {
  switch (kind) {
    case WorkerKind::kCpu:
      return "cpu";
    case WorkerKind::kComm:
      return "comm";
    case WorkerKind::kCallback:
      return "callback";
    case WorkerKind::kCompute:
      return "compute";
    case WorkerKind::kCopyIn:
      return "copy in";
    case WorkerKind::kCopyOut:
      return "copy out";
  }
  return "unknown";
}

Worker::Worker(Scheduler& scheduler, WorkerKind kind)
    : scheduler_(scheduler),
      queue_(scheduler.queue({.worker = kind})),
      polls_(kind == WorkerKind::kCpu),
      thread_(start_thread(worker_name(kind), [this] { run(); })) {}

Worker::~Worker() {
  {
    std::lock_guard lock(scheduler_.mutex);
    queue_.stopping = true;
    queue_.wake();
  }
  thread_.join();
}

void Worker::run() {
  if (polls_) become_polling_worker();
  const auto poll = [this](bool idle) {
    const PollHook hook = polls_ ? poll_hook() : nullptr;
    return hook && hook(idle);
  };
  std::unique_lock lock(scheduler_.mutex);
  for (;;) {
    while (!queue_.has_work()) {
      if (queue_.stopping) return;
      lock.unlock();
      const bool again = poll(/*idle=*/true);
      lock.lock();
      if (again || queue_.has_work() || queue_.stopping) continue;
      queue_.asleep = true;
      queue_.work_arrived.wait(lock);
    }
    Task& task = *queue_.take_work();
    lock.unlock();
    const bool ended = scheduler_.execute(task, /*on_worker=*/true);
    poll(/*idle=*/false);
    lock.lock();
    ended ? scheduler_.complete(task) : scheduler_.leave(task);
  }
}

}  // namespace mxlite::engine
