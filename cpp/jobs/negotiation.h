// Interface of what agrees on operations that the ranks submit in any order. It writes a part of
// each frame that ranks exchange in the rounds of a job; ordered calls need no negotiation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "cpp/jobs/operation.h"

namespace mxlite::jobs {

// An operation that some ranks have announced and others have not.
struct Stall {
  std::string name;
  double seconds = 0;
  std::vector<int> missing;  // ranks in the job
};

// All functions run on the comm thread.
class Negotiation {
 public:
  virtual ~Negotiation() = default;
  // Takes an operation without a number; the reference becomes null once it is kept or its owner
  // is notified.
  virtual void take(OperationRef& operation) = 0;
  // Returns whether operations wait for the next frame.
  virtual bool has_news() const = 0;
  virtual std::vector<std::byte> make_frame() = 0;
  // Reads the frames of all ranks, in their order, and decides what to do; carry_out does it and
  // returns whether there was something, perhaps for ranks of other sets.
  virtual void read(const std::vector<std::vector<std::byte>>& frames) = 0;
  virtual bool carry_out() = 0;
  // Returns whether operations of this rank have not ended.
  virtual bool is_busy() const = 0;
  virtual std::vector<Stall> stalls(double longer_than) const = 0;
  // Returns how many announcements needed no name.
  virtual uint64_t cache_hits() const = 0;
  // Notifies the owners of all operations.
  virtual void end(const std::exception_ptr& cause) noexcept = 0;
};

}  // namespace mxlite::jobs
