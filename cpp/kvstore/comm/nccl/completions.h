// Notifies owners when the work of a stream is done. Uses a thread that sleeps until then.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cpp/core/stream.h"
#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/failure_text.h"

namespace mxlite::nccl {

class Completions {
 public:
  using DoneFn = std::function<void(std::exception_ptr error)>;

  explicit Completions(Stream& stream);
  // Before destruction, all work must have ended or the communicator must be aborted.
  ~Completions();
  Completions& operator=(Completions&&) = delete;  // neither copied nor moved

  // Calls `done` after all work that was submitted to the stream so far. `what` describes the work.
  void add(std::string what, DoneFn done);
  // Makes all pending and later `done` functions get this error. The caller must still make the
  // work on the stream end.
  void fail(const char* reason) noexcept;

  bool busy();
  struct Oldest {
    std::string what;
    double seconds = 0;  // seconds since the work was added
  };
  std::optional<Oldest> oldest();

 private:
  struct Work {
    std::string what;
    DoneFn done;
    Clock::time_point since;
  };
  void thread_main();
  std::exception_ptr wait_for_stream() noexcept;

  Stream& stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> waiting_;  // guarded by mutex_, like all members below
  std::deque<Work> awaited_;  // work for which the thread waits
  FailureText failure_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mxlite::nccl
