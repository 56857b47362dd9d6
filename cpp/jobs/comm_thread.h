// The `comm` thread is the only thread that communicates with other processes. It runs from init
// until the process ends.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "cpp/jobs/job.h"

namespace mxlite::jobs {

// The end of error texts. It tells the user how a process joins its job.
inline constexpr const char* kHowToJoin =
    "call mxlite.parallel.mesh(...), create a dist_sync store, or call mxlite.horovod.init()";

class CommThread {
 public:
  static CommThread& get();  // leaked, because static destructors may use it

  // Starts the job. This call is collective over the job's ranks. Throws on failure. Does nothing
  // if a job is running.
  void start(const WorldRequest& request, const JobOptions& options, const MakeNegotiation& make);
  // Ends the job on all ranks. Pending and later operations fail. Idempotent. If `orderly` is true,
  // first waits until all ranks have left, another rank needs this rank, no operation has run for
  // the timeout, or a signal handler raises an exception. During the wait, other ranks may use
  // process sets that do not contain this rank.
  void stop(bool orderly = false) noexcept;
  // Leaves the job and forms a job of the surviving ranks. This call is collective over these
  // ranks. It also works if no rank was lost. Call start afterwards.
  void rebuild(const RebuildRequest& request);
  // Call at the end of the process. Leaves the job in order. Ends MPI if mxlite has initialized MPI
  // and no rank is lost.
  void finalize() noexcept;
  // Makes the pending operations of all ranks fail with `reason`.
  void abort(const std::string& reason) noexcept;

  // Returns the running job. Returns null before start, after stop, and after another rank has
  // ended the job.
  std::shared_ptr<Job> job();
  // Returns the running job. Throws if no job is running.
  std::shared_ptr<Job> running_job();

  Timeline& timeline() { return timeline_; }

 private:
  void post(std::function<void()> work);
  std::future<void> run(std::function<void()> work);  // runs work on the comm thread
  void run_and_wait(std::function<void()> work);      // rethrows exceptions of `work`
  void thread_main();
  void quit() noexcept;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // guarded by mutex_
  bool quit_ = false;                       // guarded by mutex_
  std::thread thread_;                      // guarded by mutex_
  std::shared_ptr<Job> job_;                // guarded by mutex_
  bool rank_lost_ = false;                  // used only by the comm thread
  std::atomic<bool> abandoned_{false};      // whether start was interrupted
  Timeline timeline_;
};

}  // namespace mxlite::jobs
