// Collectives that all ranks call in the same order. A call is known by its number in the
// program's order, so no names travel and nothing is negotiated: in each round every rank says
// which of its calls are ready, and a call that is ready on all ranks is due. A hash of each call
// shows where the orders differ. No threads and no communication in here.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/frame_bytes.h"

namespace mxlite {

// A collective that this rank is ready for, or that it cannot take part in.
struct OrderedCall {
  uint64_t number = 0;  // from 1
  uint64_t hash = 0;    // over everything that must be equal on all ranks
  bool failed = false;  // this rank has no input
};

class OrderedCalls {
 public:
  explicit OrderedCalls(int ranks) : ranks_(static_cast<size_t>(ranks)) {}

  // The call becomes part of the next frame.
  void announce(const OrderedCall& call) { news_.push_back(call); }
  bool has_news() const { return !news_.empty(); }
  void write(FrameWriter& frame);

  // Reads what `rank` has written. Throws a communicator error for calls that it repeats.
  void read(int rank, FrameReader& frame);

  struct Due {
    uint64_t number = 0;
    bool same = true;         // all ranks mean the same call
    std::vector<int> failed;  // ranks without input
  };
  // Takes the calls that all ranks have announced; ascending, equal on all ranks.
  std::vector<Due> take_due();

  struct Waiting {
    uint64_t number = 0;
    double seconds = 0;
    std::vector<int> missing;  // ranks
  };
  // Calls that some ranks have announced and others have not for longer than so many seconds.
  std::vector<Waiting> waiting(double longer_than) const;

 private:
  enum class State : uint8_t { kMissing, kReady, kFailed };
  struct Pending {
    std::vector<State> states;  // by rank
    uint64_t hash = 0;
    bool same = true;
    size_t announced = 0;
    Clock::time_point since = Clock::now();
  };

  const size_t ranks_;
  std::vector<OrderedCall> news_;
  std::map<uint64_t, Pending> pending_;
};

}  // namespace mxlite
