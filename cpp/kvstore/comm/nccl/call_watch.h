// Ends calls that do not return. While a thread is inside a call, another thread regularly checks
// whether the call must end.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "cpp/kvstore/comm/deadline.h"

namespace mxlite::nccl {

class CallWatch {
 public:
  // `check` gets the name of the call and how long it has run, and throws if the call must end.
  // `end` gets the error's text and makes the call return. Both run only while a call is in flight.
  using CheckFn = std::function<void(const char* call, double seconds)>;
  using EndFn = std::function<void(const char* reason)>;
  CallWatch(CheckFn check, EndFn end);
  ~CallWatch();
  CallWatch& operator=(CallWatch&&) = delete;  // neither copied nor moved

  // The watched call is in flight during the object's lifetime. At most one call is in flight at a
  // time.
  class Call {
   public:
    Call(CallWatch& watch, const char* name) : watch_(watch) { watch.begin(name); }
    ~Call() { watch_.finish(); }
    Call& operator=(Call&&) = delete;  // neither copied nor moved

   private:
    CallWatch& watch_;
  };

 private:
  void begin(const char* name);
  void finish();
  void run();

  const CheckFn check_;
  const EndFn end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const char* call_ = nullptr;  // guarded by mutex_, as all below; null if no call is in flight
  Clock::time_point since_;
  bool sleeps_ = false;  // whether the thread must be notified of the next call
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mxlite::nccl
