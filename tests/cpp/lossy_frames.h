// Drops, doubles and delays frames that a process of a parameter server job receives.
#pragma once
#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/link/frame_filter.h"

namespace mxlite {

// Shares of received frames, in percent.
struct FaultRates {
  double drop = 0, duplicate = 0, delay = 0;
  double delay_ms = 20;  // at most
  uint64_t seed = 0;     // 0 takes a random seed
  bool any() const { return drop > 0 || duplicate > 0 || delay > 0; }
};

class LossyFrames final : public FrameFilter {
 public:
  explicit LossyFrames(const FaultRates& rates) : rates_(rates) {}

  void arrived(ConnectionId connection, Frame frame, const Pass& pass) override {
    const bool lost = percent() < rates_.drop;
    const bool twice = percent() < rates_.duplicate;
    const bool late = percent() < rates_.delay;
    if (lost) return;
    Frame copy;
    if (twice) copy = frame;
    if (late) {
      const std::chrono::duration<double, std::milli> wait(percent() / 100 * rates_.delay_ms);
      late_.push_back({Clock::now() + std::chrono::duration_cast<Clock::duration>(wait), connection,
                       std::move(frame)});
    } else {
      pass(connection, std::move(frame));
    }
    if (twice) pass(connection, std::move(copy));
  }

  void tick(const Pass& pass) override {
    const auto now = Clock::now();
    const auto due = std::partition(late_.begin(), late_.end(),
                                    [now](const Late& late) { return late.due > now; });
    std::vector<Late> ready(std::make_move_iterator(due), std::make_move_iterator(late_.end()));
    late_.erase(due, late_.end());
    for (Late& late : ready) pass(late.connection, std::move(late.frame));
  }

 private:
  struct Late {
    Clock::time_point due;
    ConnectionId connection;
    Frame frame;
  };
  double percent() { return std::uniform_real_distribution<double>(0, 100)(random_); }

  const FaultRates rates_;
  std::mt19937_64 random_{rates_.seed ? rates_.seed : std::random_device{}()};
  std::vector<Late> late_;
};

}  // namespace mxlite
