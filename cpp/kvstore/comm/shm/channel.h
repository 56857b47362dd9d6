// Synchronizes the ranks of a segment by numbered steps. A rank fills buffers and publishes steps.
// Other ranks wait for the steps that they need. All ranks publish the same number of steps per
// operation. Every wait ends with the step, the failure of a rank, or the deadline.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/collective_operation.h"
#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/shm/shared_segment.h"

namespace mxlite::shm {

using Call = CollectiveCall;
using Operation = CollectiveOperation;

// Returns whether this process may use as many cores as its host has ranks. Otherwise a rank that
// polls may take the core from the rank for which it waits.
bool cores_for_all(int ranks);

class Channel {
 public:
  // `members` are the ranks of the job, for error texts. If it is empty, the ranks of the segment
  // are used.
  Channel(std::shared_ptr<SharedSegment> segment, int rank, std::vector<int> members = {});

  int rank() const { return rank_; }
  int size() const { return size_; }
  SharedSegment& segment() const { return *segment_; }
  // Returns the number of rank r in error texts, which is its rank in the job.
  int name_of(int r) const { return members_.empty() ? r : members_[static_cast<size_t>(r)]; }
  size_t buffer_bytes() const { return buffer_bytes_; }

  void describe(std::string what) { what_ = std::move(what); }
  // Call before the first step of an operation.
  void begin(const Operation& operation);

  // Waits until this rank's next buffer may be written, and returns its index.
  int acquire();
  std::byte* mine(int buffer) const { return segment_->buffer(rank_, buffer); }
  const std::byte* of(int r, int buffer) const { return segment_->buffer(r, buffer); }
  // Declares that the buffer may be written again once all ranks have published `step`.
  void free_after(int buffer, uint32_t step) { free_at_[static_cast<size_t>(buffer)] = step; }

  // Returns the number of the published step.
  uint32_t publish();
  uint32_t step() const { return step_; }
  void wait(int r, uint32_t step);
  void wait_all(uint32_t step) {
    for (int r = 0; r < size_; ++r) wait(r, step);
  }
  // Returns without waiting whether the rank has published the step.
  bool come(int r, uint32_t step) const;
  // Throws if the group has failed or a rank is lost.
  void look();
  // Kills ranks that are silent or do not call this function within the deadline.
  void end_hung_ranks() noexcept;
  // Waits until all ranks have joined the segment.
  void wait_arrival();

  [[noreturn]] void fail(const std::string& reason);
  void fail_others(const char* reason) noexcept { segment_->fail_all(reason); }

 private:
  void wait_slowly(int r, uint32_t step);
  void check_life(int r, uint32_t step);  // `r` is the rank for which this rank waits, or -1
  void check_signature(int r);
  std::string operation_text() const;

  std::shared_ptr<SharedSegment> segment_;
  const int rank_;
  const int size_;
  const std::vector<int> members_;
  const size_t buffer_bytes_;
  const int spins_;
  Membership membership_;
  uint32_t step_ = 0;
  uint64_t operation_number_ = 0;
  uint32_t first_step_ = 1;  // first step of the operation
  Operation operation_;
  uint64_t checked_ = 0;  // bit r is set once rank r's signature was compared for this operation
  int next_buffer_ = 0;
  std::array<uint32_t, kBuffers> free_at_{};
  std::string what_;
};

}  // namespace mxlite::shm
