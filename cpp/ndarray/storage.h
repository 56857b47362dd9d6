// Reference-counted memory with the engine variable that orders its users.
#pragma once
#include <atomic>
#include <functional>

#include "cpp/base/intrusive_ptr.h"
#include "cpp/core/allocator.h"
#include "cpp/core/device.h"
#include "cpp/core/stream.h"
#include "cpp/engine/engine.h"

namespace mxlite {

class Storage final : public RefCounted {
 public:
  // Allocates from the device's allocator, not initialized. On a GPU, tasks of other streams than
  // `first_user` wait for the work that this stream has been given so far.
  static IntrusivePtr<Storage> allocate(Device device, size_t bytes,
                                        StreamKind first_user = StreamKind::kCompute);
  // Wraps foreign memory (NumPy, DLPack); release runs after the last use, on any thread.
  static IntrusivePtr<Storage> wrap(Device device, void* data, size_t bytes,
                                    std::function<void()> release);
  // Returns a range of another storage's bytes with an engine variable of its own: tasks depend on
  // the range that they use. Keeps the whole alive.
  static IntrusivePtr<Storage> part_of(const IntrusivePtr<Storage>& whole, size_t offset,
                                       size_t bytes);
  ~Storage() override;

  void* data() const { return block_.data; }
  size_t bytes() const { return block_.bytes; }
  Device device() const { return device_; }
  // Whether wrap made it: its owner may reuse the memory as soon as release has run.
  bool is_foreign() const { return static_cast<bool>(release_); }
  engine::Var& var() const { return var_; }
  // Number of arrays that lie here: handles of users and of the tape. Tasks in flight hold the
  // memory without being counted.
  uint32_t num_arrays() const { return num_arrays_.load(std::memory_order_relaxed); }

 private:
  friend class NDArray;
  // The first and the last array of a storage change the count while no other thread has it, and
  // most storages have one array in their life.
  void add_array() const noexcept {
    if (use_count() == 1)
      num_arrays_.store(1, std::memory_order_relaxed);
    else
      num_arrays_.fetch_add(1, std::memory_order_relaxed);
  }
  void remove_array() const noexcept {
    if (use_count() > 1) num_arrays_.fetch_sub(1, std::memory_order_relaxed);
  }

  Storage(Device device, Block block, std::function<void()> release)
      : device_(device), block_(block), release_(std::move(release)) {}

  Device device_;
  Block block_;
  std::function<void()> release_;  // empty: the block goes back to the allocator
  IntrusivePtr<Storage> whole_;    // the storage of which this is a part
  mutable std::atomic<uint32_t> num_arrays_{0};
  mutable engine::Var var_;
};
using StorageRef = IntrusivePtr<Storage>;

// Called when a GPU's memory has run out: drops cached memory. There is one such function.
void set_memory_reclaimer(void (*reclaim)());

}  // namespace mxlite
