// Exchanges messages among all ranks in rounds. The ranks use these messages to negotiate.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite::jobs {

class ControlChannel {
 public:
  virtual ~ControlChannel() = default;

  // Begins a round with this rank's message. Poll ready() afterwards until it returns true; take()
  // then returns the messages by rank.
  virtual void post(std::vector<std::byte> message) = 0;
  virtual bool ready() = 0;
  virtual std::vector<std::vector<std::byte>> take() = 0;
  // Returns whether this rank should begin a round although it has no message.
  virtual bool wanted() = 0;
  // Throws if a rank is lost or has failed.
  virtual void look() = 0;

  // Returns the number of ring() calls for this rank. `sleep` returns once this number differs from
  // `seen`.
  virtual uint32_t rings() = 0;
  virtual void sleep(uint32_t seen, double seconds) = 0;
  virtual void ring() = 0;  // any thread may call it

  // Returns whether ranks can wake each other, so that the two functions below have an effect.
  virtual bool rings_others() const { return false; }
  // Any thread may call these two functions. await_rings sets whether other ranks ring this rank
  // when they write an input to a shared slot. ring_if_awaiting rings a rank that has requested
  // this.
  virtual void await_rings(bool) {}
  virtual void ring_if_awaiting(int) {}

  virtual void fail_all(const char* reason) noexcept = 0;
};

// Collective. Uses shared memory if all ranks are on one host. Otherwise all-gathers the messages
// every `cycle_ms`.
std::unique_ptr<ControlChannel> make_control(Communicator& world, double cycle_ms);

}  // namespace mxlite::jobs
