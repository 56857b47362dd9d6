// Exchanges the inputs of small collectives through memory that all ranks of a group have mapped.
// Each rank shows its input, that is, copies the input to one of its slots. A call is complete when
// all ranks have shown their inputs. Each rank then computes its result from the slots. No function
// waits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>

#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/shm/shared_segment.h"

namespace mxlite::shm {

// Not thread-safe: only one thread of a rank may use it at a time.
class SlotRing {
 public:
  SlotRing(std::shared_ptr<SharedSegment> segment, int rank);
  // Collective. The group's ranks must share memory. Returns null on all ranks if shared memory
  // does not suffice or if a rank cannot map it. This is not an error, because slots are only an
  // optimization.
  static std::unique_ptr<SlotRing> make(Communicator& group);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Returns the largest size of an input. The size is smaller for more ranks, because each rank
  // reads the inputs of all ranks.
  size_t max_bytes() const { return max_bytes_; }

  // Shows this rank's input of call `number`. The first call has the number 1. Returns false
  // without any effect if a rank may still read the previous content of the slot or of its memory.
  bool show(uint64_t number, uint64_t hash, const void* input, size_t bytes);
  enum class State : uint8_t { kIncomplete, kComplete, kDifferent };
  // Returns the state of a call that this rank has shown and has not finished. kDifferent means
  // that another rank has shown a call with another hash.
  State state(uint64_t number, uint64_t hash) const;
  // Returns the input that a rank has shown for a complete call.
  const std::byte* input(int r, uint64_t number) const;
  // Call once for each number when this rank no longer needs the slots of the call, even if the
  // rank did not use them. Calls far ahead of an unfinished call cannot be shown.
  void finish(uint64_t number) noexcept;

 private:
  static constexpr uint64_t kSlots = 64;
  struct alignas(64) Slot {
    std::atomic<uint64_t> number{0};
    uint64_t hash = 0;
    uint64_t begin = 0;  // offset of the input in the rank's memory
  };
  struct alignas(64) Shown {
    std::atomic<uint64_t> finished{0};  // the rank has finished all calls up to this number
    Slot slots[kSlots];
  };
  struct InUse {
    uint64_t number = 0;
    size_t begin = 0, end = 0;
  };

  Shown& shown(int r) const { return *reinterpret_cast<Shown*>(segment_->buffer(r, 0)); }
  Slot& slot(int r, uint64_t number) const { return shown(r).slots[number % kSlots]; }
  std::byte* memory(int r) const { return segment_->buffer(r, 0) + sizeof(Shown); }
  void look_at_finished();
  // Returns a free offset for the bytes, or `memory_bytes_` if the memory has no free range of this
  // size.
  size_t place_for(size_t bytes);

  const std::shared_ptr<SharedSegment> segment_;
  const int rank_, size_;
  const size_t memory_bytes_, max_bytes_;
  std::deque<InUse> in_use_;      // in the order of the calls of show
  uint64_t finished_by_all_ = 0;  // last known number up to which all ranks have finished all calls
  uint64_t finished_ = 0;         // this rank has finished all calls up to this number
  std::set<uint64_t> finished_after_;  // finished calls beyond an unfinished one
};

}  // namespace mxlite::shm
