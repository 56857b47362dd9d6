#include "cpp/engine/polling.h"

#include <atomic>
#include <utility>

namespace mxlite::engine {
namespace {

std::atomic<PollHook> current_hook{nullptr};
thread_local bool polls = false;

}  // namespace

void set_poll_hook(PollHook hook) { current_hook.store(hook, std::memory_order_release); }
PollHook poll_hook() { return current_hook.load(std::memory_order_acquire); }
bool on_polling_worker() { return polls; }
void become_polling_worker() { polls = true; }

PollingScope::PollingScope() : before_(std::exchange(polls, true)) {}
PollingScope::~PollingScope() { polls = before_; }

}  // namespace mxlite::engine
