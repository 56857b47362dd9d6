#include "cpp/jobs/comm_thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cpp/base/error.h"
#include "cpp/engine/blocking.h"
#include "cpp/engine/engine.h"

namespace mxlite::jobs {
namespace {

// Makes the kernel run the calling thread soon after it wakes up. Linux 6.12 and later do this for
// threads with short time slices. Other threads wait for some milliseconds until a computing thread
// has used up its time slice.
void ask_for_prompt_wakeups() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // largest delay of a sleep in ns
  struct {                           // the kernel's sched_attr
    uint32_t size = 48, policy = SCHED_OTHER;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 100'000, deadline = 0, period = 0;  // ns; the shortest possible slice
  } wanted;
  static_assert(sizeof wanted == 48);
  if (sched_getscheduler(0) != SCHED_OTHER) return;
  wanted.nice = getpriority(PRIO_PROCESS, 0);
  syscall(SYS_sched_setattr, 0, &wanted, 0);  // a failure is ignored, because the setting only
                                              // reduces latency
}

// Leaves the job and waits for the other ranks. If a signal handler raises an exception during the
// wait, rethrows it.
void leave_in_order(Job& job) {
  using std::chrono::microseconds;
  const double limit = comm_timeout();
  job.request_leave();
  const engine::BlockingScope blocking;
  const bool interruptible = engine::is_interruptible();
  for (microseconds pause{100}; !job.ended() && job.idle_seconds() < limit;
       pause = std::min(2 * pause, microseconds{20'000})) {
    std::this_thread::sleep_for(pause);
    if (interruptible) engine::run_interrupt_hook();
  }
}

}  // namespace

CommThread& CommThread::get() {
  static CommThread& instance = *new CommThread;
  return instance;
}

void CommThread::post(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    sigset_t all, before;  // other threads of the program handle signals
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { thread_main(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread_.native_handle(), "mxlite-comm");
  }
  work_.push_back(std::move(work));
  changed_.notify_all();
}

std::future<void> CommThread::run(std::function<void()> work) {
  const auto task = std::make_shared<std::packaged_task<void()>>(std::move(work));
  std::future<void> done = task->get_future();
  post([task] { (*task)(); });
  return done;
}

void CommThread::run_and_wait(std::function<void()> work) {
  const engine::BlockingScope blocking;
  run(std::move(work)).get();
}

void CommThread::thread_main() {
  ask_for_prompt_wakeups();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return quit_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

void CommThread::start(const WorldRequest& request, const JobOptions& options,
                       const MakeNegotiation& make) {
  MX_CHECK_KIND(
      !engine::in_forked_child(), ErrorKind::kCommunicator,
      "a forked process must not join a job; start the process with mxlite-run, or let its "
      "parent join");
  {
    std::lock_guard lock(mutex_);
    if (job_) return;
  }
  const auto job = std::make_shared<std::shared_ptr<Job>>();
  std::future<void> made = run([this, job, request, options, make] {
    *job = std::make_shared<Job>(make_world(request), options, timeline_, make);
  });
  try {
    engine::get_interruptibly(std::move(made));
  } catch (...) {
    abandoned_ = made.valid();  // start was interrupted, and the thread continues
    throw;
  }
  std::lock_guard lock(mutex_);
  job_ = *job;
  work_.push_back([this, job = std::move(*job)] {
    job->loop();
    rank_lost_ |= job->rank_lost();
  });
  changed_.notify_all();
}

void CommThread::stop(bool orderly) noexcept {
  std::shared_ptr<Job> job;
  {
    std::lock_guard lock(mutex_);
    job.swap(job_);
  }
  if (!job || engine::in_forked_child()) return;
  try {
    if (orderly) leave_in_order(*job);
  } catch (const std::exception&) {
    // The job is also stopped if the user has interrupted the wait.
  }
  job->request_stop();
  try {
    run_and_wait([&] { job.reset(); });  // runs on the comm thread after its loop has ended:
                                         // communicators must be destroyed on that thread
  } catch (const std::exception& e) {
    std::fprintf(stderr, "mxlite: shutdown: %s\n", e.what());
  }
}

void CommThread::rebuild(const RebuildRequest& request) {
  std::shared_ptr<Job> job;
  {
    std::lock_guard lock(mutex_);
    job.swap(job_);
  }
  if (job) job->request_stop();
  run_and_wait([&] {
    if (job) job->end_hung_ranks();
    job.reset();
    mpi_plugin().rebuild(request);
    rank_lost_ = false;
  });
}

void CommThread::finalize() noexcept {
  if (engine::in_forked_child()) return;
  stop(/*orderly=*/true);
  if (abandoned_) return quit();  // the thread may wait for other ranks until its timeout
  try {
    if (!mpi_plugin_loaded()) return quit();
    // Also ends MPI if a communicator without a job has initialized MPI.
    run_and_wait([this] {
      // MPI_Finalize waits for all ranks and would never return if a rank is lost.
      if (!rank_lost_) mpi_plugin().finalize();
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "mxlite: end of MPI: %s\n", e.what());
  }
  quit();
}

void CommThread::quit() noexcept {
  std::thread thread;
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
    changed_.notify_all();
    thread = std::move(thread_);
  }
  if (!thread.joinable()) return;
  if (abandoned_)
    thread.detach();
  else
    thread.join();
}

void CommThread::abort(const std::string& reason) noexcept {
  if (const auto running = job()) running->abort(reason.c_str());
}

std::shared_ptr<Job> CommThread::job() {
  std::lock_guard lock(mutex_);
  return job_;
}

std::shared_ptr<Job> CommThread::running_job() {
  auto running = job();
  MX_CHECK_KIND(running, ErrorKind::kCommunicator,
                "this process must have joined a job: ", kHowToJoin, " first");
  MX_CHECK_KIND(!engine::in_forked_child(), ErrorKind::kCommunicator,
                "a forked process must not use the job, in which only its parent takes part");
  return running;
}

}  // namespace mxlite::jobs
