// Tells the address sanitizer which memory of the CPU allocator may be accessed. A block may be
// larger than its array, and cached blocks must not be accessed.
#pragma once
#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace mxlite {

// Makes the address sanitizer report accesses to a block of `bytes`, except to its first
// `accessible` bytes. Has no effect in builds without the sanitizer.
inline void allow_access([[maybe_unused]] void* data, [[maybe_unused]] size_t accessible,
                         [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(data, accessible);
  ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(data) + accessible, bytes - accessible);
#endif
}

}  // namespace mxlite
