// Matches collectives that all ranks of a process set call in the same order. A call is identified
// by its number in this order, so names are not sent. In each round, every rank announces which of
// its calls are ready. A call is due when all ranks have announced it. A hash of each call detects
// ranks that call in different orders. Uses neither threads nor communication.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/frame_bytes.h"

namespace mxlite {

// A sequence of calls that share a numbering. It contains either the calls of all ranks of a
// process set, or the messages from one rank of the set to another rank.
struct CallChannel {
  int32_t set = 0;
  int32_t from = -1, to = -1;  // rank numbers of the job; -1 means calls of all ranks of the set

  bool is_message() const { return from >= 0; }
  auto operator<=>(const CallChannel&) const = default;
};

// A rank's announcement of a call. It says that the rank is ready or that it cannot take part.
struct OrderedCall {
  uint64_t number = 0;  // counted from 1 in each channel
  uint64_t hash = 0;    // hash of all properties that must be equal on all ranks
  bool failed = false;  // whether this rank has no input
  CallChannel channel = {};
  bool withdrawn = false;  // whether the rank withdraws its announcement
};

class OrderedCalls {
 public:
  // Returns the ranks of a process set, or null if the set does not exist.
  using Members = std::function<const std::vector<int>*(int32_t set)>;

  // If `members` is null, set 0, which holds all ranks, is the only process set.
  explicit OrderedCalls(int ranks, Members members = nullptr)
      : ranks_(static_cast<size_t>(ranks)), members_(std::move(members)) {}

  // Adds the call to the next frame.
  void announce(const OrderedCall& call) { news_.push_back(call); }
  // Withdraws the announcement of a call that the ranks have carried out in another way. Call this
  // function only if some rank has not announced the call, because such a call cannot be due.
  void withdraw(const CallChannel& channel, uint64_t number);
  // Returns whether any rank, including this rank, has announced the call although the call is not
  // due yet.
  bool is_announced(const CallChannel& channel, uint64_t number) const {
    return pending_.contains({channel, number});
  }
  bool has_news() const { return !news_.empty(); }
  void write(FrameWriter& frame);

  // Reads the frame of `rank`. Throws a communicator error if the rank announces a call twice or
  // announces a call of a channel to which it does not belong.
  void read(int rank, FrameReader& frame);

  struct Due {
    CallChannel channel;
    uint64_t number = 0;
    bool same = true;         // whether all ranks have announced the same hash
    std::vector<int> failed;  // ranks without input
  };
  // Removes and returns the calls that all ranks of their channels have announced. The calls are
  // ordered by channel and number. The result is the same on all ranks.
  std::vector<Due> take_due();

  struct AwaitedCall {
    CallChannel channel;
    uint64_t number = 0;
    double seconds = 0;
    std::vector<int> missing;  // ranks that have not announced the call
  };
  // Returns the calls that some ranks announced more than `longer_than` seconds ago and other ranks
  // have not announced.
  std::vector<AwaitedCall> waiting(double longer_than) const;
  bool has_waiting() const { return !pending_.empty(); }

  // Removes all calls of a process set. Call when the set is removed.
  void drop(int32_t set);

 private:
  enum class State : uint8_t { kMissing, kReady, kFailed };
  struct AnnouncedCall {
    std::vector<State> states;  // indexed by rank
    uint64_t hash = 0;
    bool same = true;
    size_t announced = 0, expected = 0;  // number of ranks
    Clock::time_point since = Clock::now();
  };
  using Key = std::pair<CallChannel, uint64_t>;

  bool takes_part(int rank, const CallChannel& channel) const;
  void take_back(int rank, const Key& key);

  const size_t ranks_;
  const Members members_;
  std::vector<OrderedCall> news_;
  std::map<Key, AnnouncedCall> pending_;
};

}  // namespace mxlite
