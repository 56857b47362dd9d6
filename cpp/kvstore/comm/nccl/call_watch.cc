#include "cpp/kvstore/comm/nccl/call_watch.h"

#include <chrono>
#include <exception>
#include <utility>

#include "cpp/engine/worker.h"

namespace mxlite::nccl {
namespace {

constexpr std::chrono::milliseconds kPoll{20};
// Number of polls without a new call after which the thread sleeps until a call wakes it.
constexpr int kPollsBeforeSleep = 50;

}  // namespace

CallWatch::CallWatch(CheckFn check, EndFn end)
    : check_(std::move(check)),
      end_(std::move(end)),
      thread_(engine::start_thread("calls", [this] { run(); })) {}

CallWatch::~CallWatch() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void CallWatch::begin(const char* name) {
  std::lock_guard lock(mutex_);
  call_ = name;
  since_ = Clock::now();
  if (sleeps_) changed_.notify_one();
}

void CallWatch::finish() {
  std::lock_guard lock(mutex_);
  call_ = nullptr;
}

void CallWatch::run() {
  std::unique_lock lock(mutex_);
  Clock::time_point seen;  // beginning of the call that the last poll has seen
  for (int idle = 0; !stopping_;) {
    if (idle == kPollsBeforeSleep) {
      sleeps_ = true;
      changed_.wait(lock, [this] { return stopping_ || call_; });
      sleeps_ = false;
      idle = 0;
    } else {
      changed_.wait_for(lock, kPoll, [this] { return stopping_; });
    }
    if (!call_) {
      idle = since_ == seen ? idle + 1 : 0;
    } else if (since_ == seen) {  // the call has been in flight for at least one poll
      idle = 0;
      try {
        const std::chrono::duration<double> seconds = Clock::now() - since_;
        check_(call_, seconds.count());
      } catch (const std::exception& error) {
        end_(error.what());
      }
    }
    seen = since_;
  }
}

}  // namespace mxlite::nccl
