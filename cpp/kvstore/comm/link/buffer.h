// Reference-counted bytes of values, and of messages that contain values.
#pragma once
#include <cstddef>
#include <memory>

namespace mxlite {

// Wraps memory that the owner keeps alive.
struct Buffer {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  size_t bytes = 0;
};
// Writable memory, which starts uninitialized.
struct OwnBuffer {
  std::shared_ptr<std::byte[]> memory;
  size_t bytes = 0;
  static OwnBuffer allocate(size_t bytes) {
    return {std::make_shared_for_overwrite<std::byte[]>(bytes), bytes};
  }
  std::byte* data() const { return memory.get(); }
  Buffer shared() const { return {memory, memory.get(), bytes}; }
};

}  // namespace mxlite
