// Reference-counted memory, and the engine variable that orders the tasks that use it.
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
  // Returns uninitialized memory of the device's allocator. The first call of data() allocates host
  // memory, so that a queued operator needs no memory for its results. On a GPU, tasks of other
  // streams wait for the work that was submitted to stream `first_user`.
  static IntrusivePtr<Storage> allocate(Device device, size_t bytes,
                                        StreamKind first_user = StreamKind::kCompute);
  // Returns a storage that calls `provide` in the first call of data(), which must happen in a
  // task. The memory returned by `provide` lives as long as the storage.
  static IntrusivePtr<Storage> provided(Device device, size_t bytes,
                                        std::function<IntrusivePtr<Storage>()> provide);
  // Wraps foreign memory (NumPy, DLPack). `release` runs after the last use, on any thread.
  static IntrusivePtr<Storage> wrap(Device device, void* data, size_t bytes,
                                    std::function<void()> release);
  // Returns a range of another storage's bytes with a separate engine variable, so that tasks
  // depend only on ranges that they use. Keeps the other storage alive.
  static IntrusivePtr<Storage> part_of(const IntrusivePtr<Storage>& whole, size_t offset,
                                       size_t bytes);
  ~Storage() override;

  // Allocates the memory on the first call. Throws kOutOfMemory on failure. Tasks must call data()
  // when they run, not when they are pushed.
  void* data() const {
    void* const known = data_.load(std::memory_order_acquire);
    return known ? known : obtain();
  }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  // Returns whether the storage was created by `wrap`. The owner of such memory may reuse it as
  // soon as `release` has run.
  bool is_foreign() const { return static_cast<bool>(release_); }
  engine::Var& var() const { return var_; }
  // Returns the number of arrays of users and of the tape that use this storage. Tasks in flight
  // keep the memory alive without being counted.
  uint32_t num_arrays() const { return num_arrays_.load(std::memory_order_relaxed); }
  // Returns the size if this is the first call and the memory was allocated outside of a task,
  // otherwise 0. The caller passes the result as PushOptions::bytes, because the task keeps these
  // bytes allocated until it has run.
  size_t take_new_bytes() const {
    const bool taken = is_new_.load(std::memory_order_relaxed) &&
                       is_new_.exchange(false, std::memory_order_relaxed);
    return taken ? bytes_ : 0;
  }

 private:
  friend class NDArray;
  // Most storages have only one array. With one reference, no other thread can access the count, so
  // no atomic read-modify-write is needed.
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
      : device_(device),
        data_(block.data),
        bytes_(block.bytes),
        is_new_(block.data != nullptr),
        release_(std::move(release)) {}
  void* obtain() const;

  Device device_;
  mutable std::atomic<void*> data_;  // null if not allocated yet
  size_t bytes_;
  mutable std::atomic<bool> is_new_;
  std::function<void()> release_;  // empty if the block is returned to the allocator
  mutable std::function<IntrusivePtr<Storage>()> provide_;
  mutable IntrusivePtr<Storage> whole_;  // storage of which this storage is a part, or null
  mutable std::atomic<uint32_t> num_arrays_{0};
  mutable engine::Var var_;
};
using StorageRef = IntrusivePtr<Storage>;

// An operand of a task: storage and offset, from which the task gets the address when it runs.
struct StoragePlace {
  StorageRef storage;
  size_t offset = 0;  // in bytes
  void* data() const { return static_cast<std::byte*>(storage->data()) + offset; }
};

// Sets a process-wide function that drops cached memory when a GPU is out of memory.
void set_memory_reclaimer(void (*reclaim)());

}  // namespace mxlite
