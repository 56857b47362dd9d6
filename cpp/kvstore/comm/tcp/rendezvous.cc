#include "cpp/kvstore/comm/tcp/rendezvous.h"

#include "cpp/base/error.h"

namespace mxlite::tcp {
namespace {

using members::MemberStatus;

int checked_size(int processes, const std::string& token) {
  MX_CHECK(processes > 0 && processes <= kMostProcesses, "a job must have 1 to ", kMostProcesses,
           " processes, got ", processes);
  MX_CHECK(!token.empty(),
           "the token of a job over several hosts (MXLITE_JOB_TOKEN) must not be empty");
  return processes;
}

}  // namespace

Rendezvous::Rendezvous(int processes, const Address& address, const std::string& token)
    : Registry(kHostsJob, key_of_secret(token), "", checked_size(processes, token), 0),
      address_(reactor_.listen(address)) {
  reactor_.start("mxlite-meeting");
}

Rendezvous::Entry* Rendezvous::place_for(const members::Registration& r, std::string& why) {
  const int size = static_cast<int>(workers_.size());
  if (r.num_workers != size || r.rank < 0 || r.rank >= size) {
    why = str(kHostsJob.source, ": rank must be in [0, ", size - 1, "] of ", size,
              " processes, got ", r.rank, " of ", r.num_workers);
    return nullptr;
  }
  Entry& entry = workers_[static_cast<size_t>(r.rank)];
  if (entry.state.status == MemberStatus::kMissing) return &entry;
  why = str(kHostsJob.source, ": rank ", r.rank, " (", r.where(),
            ") has already joined: ", entry.registration.where());
  return nullptr;
}

void Rendezvous::take_frame(Entry&, const Frame& frame) {
  if (frame.type != FrameType::kGroupFailure)
    throw FrameError(
        BadFrame::kOrder,
        "job rendezvous: a process must send only failures of groups, got another frame");
  send_all(frame.type, encode(decode<members::GroupFailure>(frame.body)));
}

void Rendezvous::lose(Entry& entry, const std::string& why) {
  if (entry.state.status != MemberStatus::kAlive) return;
  const std::string text = lost_text(entry, why);
  if (state_.running)
    publish(entry);
  else
    fail_job(str(kHostsJob.source, ": ", text));
}

void Rendezvous::left(Entry& entry) {
  if (!state_.running)
    fail_job(str(kHostsJob.source, ": rank ", entry.rank, " left before all had joined"));
  else
    publish(entry);
}

void Rendezvous::tick() {
  if (!state_.failure.empty()) return;
  check_silence();
  if (state_.running) return;
  for (const Entry& e : workers_) {
    const double limit = e.registration.timeout;
    if (e.state.status != MemberStatus::kAlive || seconds_since(e.since) <= limit) continue;
    const std::string trouble = reactor_.shortage_text();
    return fail_job(str(kHostsJob.source, ": rank ", e.rank, " has waited ", limit,
                        " s (MXLITE_COMM_TIMEOUT): ", missing(), trouble.empty() ? "" : "; ",
                        trouble));
  }
}

std::string Rendezvous::missing() const {
  std::string text;
  int count = 0;
  for (const Entry& e : workers_) {
    if (e.state.status == MemberStatus::kAlive) continue;
    text += str(count++ ? ", " : "", e.rank);
  }
  return str(count == 1 ? "rank " : "ranks ", text, count == 1 ? " has" : " have",
             " not joined the job of ", workers_.size(), " processes");
}

}  // namespace mxlite::tcp
