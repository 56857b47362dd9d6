#include "cpp/kvstore/comm/ordered_calls.h"

#include <algorithm>

#include "cpp/base/error.h"

namespace mxlite {
namespace {

constexpr size_t kEntryBytes = 2 * sizeof(uint64_t) + 1 + 3 * sizeof(int32_t);
constexpr uint8_t kWithdrawn = 2;  // sent in place of the flag `failed`

}  // namespace

void OrderedCalls::write(FrameWriter& frame) {
  frame.number(static_cast<uint32_t>(news_.size()));
  for (const OrderedCall& call : news_) {
    frame.number(call.number);
    frame.number(call.hash);
    frame.number(call.withdrawn ? kWithdrawn : static_cast<uint8_t>(call.failed));
    frame.number(call.channel.set);
    frame.number(call.channel.from);
    frame.number(call.channel.to);
  }
  news_.clear();
}

bool OrderedCalls::takes_part(int rank, const CallChannel& channel) const {
  if (!members_) return channel == CallChannel{};
  const std::vector<int>* ranks = members_(channel.set);
  if (!ranks) return false;
  const auto belongs = [&](int r) {
    return std::find(ranks->begin(), ranks->end(), r) != ranks->end();
  };
  if (!channel.is_message()) return channel.to == -1 && belongs(rank);
  return (rank == channel.from || rank == channel.to) && channel.from != channel.to &&
         belongs(channel.from) && belongs(channel.to);
}

void OrderedCalls::read(int rank, FrameReader& frame) {
  for (uint32_t n = frame.count(kEntryBytes); n > 0; --n) {
    const auto number = frame.number<uint64_t>();
    const auto hash = frame.number<uint64_t>();
    const auto kind = frame.number<uint8_t>();
    CallChannel channel;
    channel.set = frame.number<int32_t>();
    channel.from = frame.number<int32_t>();
    channel.to = frame.number<int32_t>();
    MX_CHECK_KIND(takes_part(rank, channel), ErrorKind::kCommunicator, "rank ", rank,
                  " announces a call of process set ", channel.set,
                  ", which does not contain the rank");
    if (kind == kWithdrawn) {
      take_back(rank, {channel, number});
      continue;
    }
    AnnouncedCall& call = pending_[{channel, number}];
    if (call.announced == 0) {
      call.states.resize(ranks_);
      call.hash = hash;
      call.expected = channel.is_message() ? 2 : members_ ? members_(channel.set)->size() : ranks_;
    }
    State& state = call.states[static_cast<size_t>(rank)];
    MX_CHECK_KIND(state == State::kMissing, ErrorKind::kCommunicator, "rank ", rank,
                  " announces the ordered call ", number, " twice");
    state = kind != 0 ? State::kFailed : State::kReady;
    call.same = call.same && call.hash == hash;
    ++call.announced;
  }
}

void OrderedCalls::withdraw(const CallChannel& channel, uint64_t number) {
  const auto unsent = std::find_if(news_.begin(), news_.end(), [&](const OrderedCall& call) {
    return call.channel == channel && call.number == number;
  });
  if (unsent != news_.end())
    news_.erase(unsent);
  else
    news_.push_back({number, 0, false, channel, /*withdrawn=*/true});
}

void OrderedCalls::take_back(int rank, const Key& key) {
  const auto call = pending_.find(key);
  MX_CHECK_KIND(
      call != pending_.end() && call->second.states[static_cast<size_t>(rank)] == State::kReady,
      ErrorKind::kCommunicator, "rank ", rank, " withdraws the ordered call ", key.second,
      ", which the rank has not announced");
  call->second.states[static_cast<size_t>(rank)] = State::kMissing;
  if (--call->second.announced == 0) pending_.erase(call);
}

std::vector<OrderedCalls::Due> OrderedCalls::take_due() {
  std::vector<Due> due;
  for (auto at = pending_.begin(); at != pending_.end();) {
    const AnnouncedCall& call = at->second;
    if (call.announced < call.expected) {
      ++at;
      continue;
    }
    Due one{at->first.first, at->first.second, call.same, {}};
    for (size_t r = 0; r < ranks_; ++r)
      if (call.states[r] == State::kFailed) one.failed.push_back(static_cast<int>(r));
    due.push_back(std::move(one));
    at = pending_.erase(at);
  }
  return due;
}

std::vector<OrderedCalls::AwaitedCall> OrderedCalls::waiting(double longer_than) const {
  std::vector<AwaitedCall> list;
  const auto now = Clock::now();
  for (const auto& [key, call] : pending_) {
    const std::chrono::duration<double> seconds = now - call.since;
    if (seconds.count() < longer_than) continue;
    AwaitedCall one{key.first, key.second, seconds.count(), {}};
    for (size_t r = 0; r < ranks_; ++r)
      if (call.states[r] == State::kMissing && takes_part(static_cast<int>(r), key.first))
        one.missing.push_back(static_cast<int>(r));
    list.push_back(std::move(one));
  }
  return list;
}

void OrderedCalls::drop(int32_t set) {
  std::erase_if(news_, [&](const OrderedCall& call) { return call.channel.set == set; });
  std::erase_if(pending_, [&](const auto& entry) { return entry.first.first.set == set; });
}

}  // namespace mxlite
