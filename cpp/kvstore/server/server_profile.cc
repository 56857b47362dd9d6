// Commands of workers for the profiler of the server's process. Writing a trace is slow. Therefore
// the thread in Server::run executes these commands while the reactor continues.
#include <algorithm>

#include "cpp/kvstore/server/server.h"

namespace mxlite::server {

void Server::on_run_thread(std::function<void(const ServerHooks&)> work) {
  std::lock_guard lock(mutex_);
  todo_.push_back(std::move(work));
  over_changed_.notify_all();
}

void Server::profile(ConnectionId id, int worker, uint64_t request, const Command& c) {
  ProfileRequest& asked = profile_requests_[worker];
  if (c.number < asked.number) return;    // a delayed duplicate of a request that was answered
  asked.answer = answer_to(id, request);  // a repeated request may come from a new connection
  if (c.number == asked.number && asked.under_way) return;
  asked.number = c.number;
  asked.under_way = true;
  on_run_thread([this, worker, c](const ServerHooks& hooks) {
    std::optional<Error> error;
    try {
      hooks.profile(registered_.rank, c.name, c.text);
    } catch (const Error& e) {
      error.emplace(e.kind(), str(member_.self(), ": ", e.what()));
    }
    member_.reactor().post([this, worker, c, error] {
      if (!error) {
        keep_profile_command(c);
        commands_done_[worker] = std::max(commands_done_[worker], c.number);
        save_settings();
      }
      ProfileRequest& answered = profile_requests_[worker];
      if (answered.number != c.number) return;
      answered.under_way = false;
      answered.answer({error, {}, {}});
    });
  });
}

// Stores the command, so that a replacement server gets the same configuration and state.
void Server::keep_profile_command(const Command& c) {
  std::erase_if(settings_, [&](const Command& old) {
    if (old.head != kProfiler) return false;
    return c.name == "config" ? old.name == c.name && old.text == c.text : old.name == "state";
  });
  if (c.name != "dump") settings_.push_back(c);
}

}  // namespace mxlite::server
