// Inputs of small collectives in memory that all ranks of a group have mapped. A rank shows its
// input of a call in a slot of its own; a call is complete when all ranks have shown theirs, and
// then each rank computes its result from the slots. No rank waits in here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>

#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/shm/shared_segment.h"

namespace mxlite::shm {

// Not thread-safe: one thread of a rank at a time.
class SlotRing {
 public:
  SlotRing(std::shared_ptr<SharedSegment> segment, int rank);
  // Collective. The group's ranks must share memory. Returns null on all ranks if there is too
  // little of it or one rank cannot map it: slots only save time.
  static std::unique_ptr<SlotRing> make(Communicator& group);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Largest input in bytes. Every rank reads the inputs of all, so more ranks have smaller ones.
  size_t max_bytes() const { return max_bytes_; }

  // Shows this rank's input of call `number`, counted from 1. Returns false if a rank may still
  // read what the slot or its memory held before; nothing is shown then.
  bool show(uint64_t number, uint64_t hash, const void* input, size_t bytes);
  enum class State : uint8_t { kIncomplete, kComplete, kDifferent };
  // Returns the state of a call that this rank has shown and not finished; kDifferent: another
  // rank has shown a call with another hash.
  State state(uint64_t number, uint64_t hash) const;
  // Returns the input that a rank has shown for a complete call.
  const std::byte* input(int r, uint64_t number) const;
  // This rank needs no slot of the call any more, or never used one. Each number must be finished
  // once: calls far ahead of one that is not finished cannot be shown.
  void finish(uint64_t number) noexcept;

 private:
  static constexpr uint64_t kSlots = 64;
  struct alignas(64) Slot {
    std::atomic<uint64_t> number{0};
    uint64_t hash = 0;
    uint64_t begin = 0;  // offset of the input in the rank's memory
  };
  struct alignas(64) Shown {
    std::atomic<uint64_t> finished{0};  // this rank has finished all calls up to this one
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
  // Returns where the bytes may lie, or `memory_bytes_` if there is no room.
  size_t place_for(size_t bytes);

  const std::shared_ptr<SharedSegment> segment_;
  const int rank_, size_;
  const size_t memory_bytes_, max_bytes_;
  std::deque<InUse> in_use_;           // in the order in which it was shown
  uint64_t finished_by_all_ = 0;       // as last seen
  uint64_t finished_ = 0;              // by this rank, without a gap
  std::set<uint64_t> finished_after_;  // beyond a call that is not finished
};

}  // namespace mxlite::shm
