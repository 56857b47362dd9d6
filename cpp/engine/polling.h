// Lets the CPU worker poll for results from other processes, without waking another thread.
#pragma once

namespace mxlite::engine {

// Called by the CPU worker without a lock: after each task, and, with `idle`, repeatedly before it
// sleeps, as long as it returns true and no task is ready. Must not block or throw.
using PollHook = bool (*)(bool idle);
void set_poll_hook(PollHook hook);
PollHook poll_hook();  // returns null if no hook is set

// Returns whether the calling thread will call the hook, because it is the CPU worker or has a
// PollingScope.
bool on_polling_worker();
void become_polling_worker();  // called by the worker itself

// Makes on_polling_worker return true on this thread, which must call the hook before it returns.
class PollingScope {
 public:
  PollingScope();
  ~PollingScope();
  PollingScope& operator=(PollingScope&&) = delete;  // neither copied nor moved

 private:
  const bool before_;
};

}  // namespace mxlite::engine
