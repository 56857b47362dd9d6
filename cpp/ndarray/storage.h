// Reference-counted memory with the engine variable that orders its users.
#pragma once
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
  ~Storage() override;

  void* data() const { return block_.data; }
  size_t bytes() const { return block_.bytes; }
  Device device() const { return device_; }
  // Whether wrap made it: its owner may reuse the memory as soon as release has run.
  bool is_foreign() const { return static_cast<bool>(release_); }
  engine::Var& var() const { return var_; }

 private:
  Storage(Device device, Block block, std::function<void()> release)
      : device_(device), block_(block), release_(std::move(release)) {}

  Device device_;
  Block block_;
  std::function<void()> release_;  // empty: the block goes back to the allocator
  mutable engine::Var var_;
};
using StorageRef = IntrusivePtr<Storage>;

// Called when a GPU's memory has run out: drops cached memory. There is one such function.
void set_memory_reclaimer(void (*reclaim)());

}  // namespace mxlite
