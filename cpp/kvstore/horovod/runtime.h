// The `comm` thread: it alone talks to other processes, from init to the end of the process.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "cpp/kvstore/horovod/session.h"

namespace mxlite::horovod {

class Runtime {
 public:
  static Runtime& get();  // leaked: it may be used while static objects go away

  // Collective: makes the world. Throws if it cannot; does nothing while a session runs.
  void start(const WorldRequest& request, const RuntimeOptions& options);
  // Tells all ranks; what is pending or submitted later fails. Idempotent.
  void stop() noexcept;
  // Leaves the session, whether or not ranks were lost, and forms the job of those that live;
  // collective over them. Then start.
  void rebuild(const RebuildRequest& request);
  // At the end of the process: ends MPI if it is ours and no rank is lost.
  void finalize() noexcept;
  // Makes the operations of all ranks fail with this text.
  void abort(const std::string& reason) noexcept;

  // Null before start and after stop. It may have ended by another rank's shutdown.
  std::shared_ptr<Session> session();
  // Throws if there is none.
  std::shared_ptr<Session> running_session();

  Timeline& timeline() { return timeline_; }

 private:
  void post(std::function<void()> work);
  std::future<void> run(std::function<void()> work);  // on the thread
  void run_and_wait(std::function<void()> work);      // rethrows
  void thread_main();
  void quit() noexcept;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // guarded by mutex_
  bool quit_ = false;                       // guarded by mutex_
  std::thread thread_;                      // guarded by mutex_
  std::shared_ptr<Session> session_;        // guarded by mutex_
  bool rank_lost_ = false;                  // of the thread
  std::atomic<bool> abandoned_{false};      // start was interrupted: the thread may not end
  Timeline timeline_;
};

}  // namespace mxlite::horovod
