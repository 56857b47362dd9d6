// Lets the CPU worker poll for results from other processes, without waking another thread.
#pragma once

namespace mxlite::engine {

// The CPU worker calls the hook without a lock after each task. Before it sleeps, it also calls the
// hook with `idle` until the hook returns false or a task is ready. The hook must not block or
// throw.
using PollHook = bool (*)(bool idle);
void set_poll_hook(PollHook hook);
PollHook poll_hook();  // returns null if no hook is set

// Returns whether the calling thread will call the hook, because it is the CPU worker or has a
// PollingScope.
bool on_polling_worker();
void become_polling_worker();  // called by the worker itself

// Makes on_polling_worker return true on this thread. The thread must call the hook while the
// object exists.
class PollingScope {
 public:
  PollingScope();
  ~PollingScope();
  PollingScope& operator=(PollingScope&&) = delete;  // neither copied nor moved

 private:
  const bool before_;
};

}  // namespace mxlite::engine
