#include "cpp/kvstore/comm/ordered_calls.h"

#include "cpp/base/error.h"

namespace mxlite {
namespace {

constexpr size_t kEntryBytes = 2 * sizeof(uint64_t) + 1;

}  // namespace

void OrderedCalls::write(FrameWriter& frame) {
  frame.number(static_cast<uint32_t>(news_.size()));
  for (const OrderedCall& call : news_) {
    frame.number(call.number);
    frame.number(call.hash);
    frame.number(static_cast<uint8_t>(call.failed));
  }
  news_.clear();
}

void OrderedCalls::read(int rank, FrameReader& frame) {
  for (uint32_t n = frame.count(kEntryBytes); n > 0; --n) {
    const auto number = frame.number<uint64_t>();
    const auto hash = frame.number<uint64_t>();
    const bool failed = frame.number<uint8_t>() != 0;
    Pending& call = pending_[number];
    if (call.announced == 0) {
      call.states.resize(ranks_);
      call.hash = hash;
    }
    State& state = call.states[static_cast<size_t>(rank)];
    MX_CHECK_KIND(state == State::kMissing, ErrorKind::kCommunicator, "rank ", rank,
                  " announces the ordered call ", number, " twice");
    state = failed ? State::kFailed : State::kReady;
    call.same = call.same && call.hash == hash;
    ++call.announced;
  }
}

std::vector<OrderedCalls::Due> OrderedCalls::take_due() {
  std::vector<Due> due;
  for (auto at = pending_.begin(); at != pending_.end();) {
    const Pending& call = at->second;
    if (call.announced < ranks_) {
      ++at;
      continue;
    }
    Due one{at->first, call.same, {}};
    for (size_t r = 0; r < ranks_; ++r)
      if (call.states[r] == State::kFailed) one.failed.push_back(static_cast<int>(r));
    due.push_back(std::move(one));
    at = pending_.erase(at);
  }
  return due;
}

std::vector<OrderedCalls::Waiting> OrderedCalls::waiting(double longer_than) const {
  std::vector<Waiting> list;
  const auto now = Clock::now();
  for (const auto& [number, call] : pending_) {
    const std::chrono::duration<double> seconds = now - call.since;
    if (seconds.count() < longer_than) continue;
    Waiting one{number, seconds.count(), {}};
    for (size_t r = 0; r < ranks_; ++r)
      if (call.states[r] == State::kMissing) one.missing.push_back(static_cast<int>(r));
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace mxlite
