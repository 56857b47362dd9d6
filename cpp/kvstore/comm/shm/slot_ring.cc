#include "cpp/kvstore/comm/shm/slot_ring.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "cpp/base/cache_line.h"

namespace mxlite::shm {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;  // each rank has kBuffers buffers of this size
// Limit of the bytes that a rank reads from all other ranks in one call. Larger inputs use an
// all-reduce in which each rank reduces one part, because it reads fewer bytes.
constexpr size_t kReadBytes = size_t{256} << 10;

size_t padded(size_t bytes) {
  return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

}  // namespace

SlotRing::SlotRing(std::shared_ptr<SharedSegment> segment, int rank)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(static_cast<int>(segment_->header().ranks)),
      memory_bytes_(segment_->buffer_bytes() * kBuffers - sizeof(Shown)),
      max_bytes_(
          std::min(memory_bytes_ / 2, kReadBytes / static_cast<size_t>(std::max(size_ - 1, 1)))) {
  // Calls no constructors in the memory, which contains zeros, because other ranks may already read
  // the slots.
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
}

std::unique_ptr<SlotRing> SlotRing::make(Communicator& group) {
  SegmentName name;
  std::shared_ptr<SharedSegment> segment;
  try {
    if (group.rank() == 0 && group.size() > 1)
      segment = SharedSegment::create(group.size(), kBufferBytes, name);
  } catch (const std::exception& e) {  // also reports the error to the other ranks
    std::snprintf(name.error, sizeof name.error, "%s", e.what());
  }
  group.describe("memory of small collectives");
  group.broadcast(&name, sizeof name, 0);
  if (name.error[0] != 0) return nullptr;
  std::unique_ptr<SlotRing> slots;
  try {
    if (group.size() == 1)
      segment = SharedSegment::create_unnamed(1, kBufferBytes);
    else if (group.rank() != 0)
      segment = SharedSegment::open(name, group.size());
    slots = std::make_unique<SlotRing>(segment, group.rank());
  } catch (const std::exception&) {
    // This rank cannot map the memory. The all_gather below informs the other ranks, and then no
    // rank uses slots.
  }
  const uint8_t mine = slots ? 1 : 0;
  std::vector<uint8_t> joined(static_cast<size_t>(group.size()));
  group.all_gather(&mine, joined.data(), std::vector<size_t>(joined.size(), sizeof mine));
  if (segment) segment->unlink();
  if (std::find(joined.begin(), joined.end(), 0) != joined.end()) return nullptr;
  return slots;
}

void SlotRing::look_at_finished() {
  uint64_t all = finished_;
  for (int r = 0; r < size_; ++r)
    if (r != rank_) all = std::min(all, shown(r).finished.load(std::memory_order_acquire));
  finished_by_all_ = all;
  while (!in_use_.empty() && in_use_.front().number <= all) in_use_.pop_front();
}

size_t SlotRing::place_for(size_t bytes) {
  if (in_use_.empty()) return 0;
  const size_t oldest = in_use_.front().begin, end = in_use_.back().end;
  if (in_use_.back().begin < oldest)  // the position has wrapped around
    return end + bytes <= oldest ? end : memory_bytes_;
  if (end + bytes <= memory_bytes_) return end;
  return bytes <= oldest ? 0 : memory_bytes_;
}

bool SlotRing::show(uint64_t number, uint64_t hash, const void* input, size_t bytes) {
  const size_t room = padded(std::max<size_t>(bytes, 1));  // at least 1, so that offsets differ
  if (bytes > max_bytes_) return false;
  size_t begin = memory_bytes_;
  const auto fits = [&] {
    return number <= finished_by_all_ + kSlots && (begin = place_for(room)) < memory_bytes_;
  };
  if (!fits()) {
    look_at_finished();
    if (!fits()) return false;
  }
  in_use_.push_back({number, begin, begin + room});
  if (bytes > 0) std::memcpy(memory(rank_) + begin, input, bytes);
  Slot& mine = slot(rank_, number);
  mine.hash = hash;
  mine.begin = begin;
  // If two ranks show the call at the same time, at least one of them sees the slot of the other.
  mine.number.store(number, std::memory_order_seq_cst);
  return true;
}

SlotRing::State SlotRing::state(uint64_t number, uint64_t hash) const {
  State state = State::kComplete;
  for (int r = 0; r < size_; ++r) {
    const Slot& theirs = slot(r, number);
    if (theirs.number.load(std::memory_order_seq_cst) != number)
      state = State::kIncomplete;
    else if (theirs.hash != hash)
      return State::kDifferent;
  }
  return state;
}

const std::byte* SlotRing::input(int r, uint64_t number) const {
  return memory(r) + slot(r, number).begin;
}

void SlotRing::finish(uint64_t number) noexcept {
  if (number != finished_ + 1) {
    try {
      finished_after_.insert(number);
    } catch (const std::bad_alloc&) {
      // If the insertion runs out of memory, the call stays unfinished. `show` will then refuse
      // calls far ahead of this call.
    }
    return;
  }
  ++finished_;
  while (!finished_after_.empty() && *finished_after_.begin() == finished_ + 1) {
    finished_after_.erase(finished_after_.begin());
    ++finished_;
  }
  shown(rank_).finished.store(finished_, std::memory_order_release);
}

}  // namespace mxlite::shm
