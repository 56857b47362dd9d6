// Interface of the protocol in which ranks agree on operations that they submit in any order. The
// protocol writes a part of each frame that ranks exchange in a round. Ordered calls do not use
// this protocol.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "cpp/jobs/operation.h"

namespace mxlite::jobs {

// An operation that some ranks have announced and other ranks have not.
struct Stall {
  std::string name;
  double seconds = 0;
  std::vector<int> missing;  // ranks of the job that have not announced the operation
};

// All functions run on the comm thread.
class Negotiation {
 public:
  virtual ~Negotiation() = default;
  // Takes an operation whose number is 0. Resets the reference once the negotiation has stored the
  // operation or notified its owner.
  virtual void take(OperationRef& operation) = 0;
  // Returns whether the next frame has operations to announce.
  virtual bool has_news() const = 0;
  virtual std::vector<std::byte> make_frame() = 0;
  // Reads the frames of all ranks in rank order and decides which operations run. carry_out runs
  // these operations. It returns whether any operation was due, including operations of process
  // sets without this rank.
  virtual void read(const std::vector<std::vector<std::byte>>& frames) = 0;
  virtual bool carry_out() = 0;
  // Returns whether any operation of this rank has not ended.
  virtual bool is_busy() const = 0;
  virtual std::vector<Stall> stalls(double longer_than) const = 0;
  // Returns the number of announcements that sent a cached number in place of the name.
  virtual uint64_t cache_hits() const = 0;
  // Notifies the owners of all operations.
  virtual void end(const std::exception_ptr& cause) noexcept = 0;
};

}  // namespace mxlite::jobs
