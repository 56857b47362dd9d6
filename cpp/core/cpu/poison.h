// Tells the address sanitizer which memory of the CPU allocator may be used: a block may be larger
// than the array in it, and no access to a cached block is allowed.
#pragma once
#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace mxlite {

// Makes accesses to a block of `bytes` errors, except to its first `accessible` bytes. Does nothing
// in builds without the address sanitizer.
inline void allow_access([[maybe_unused]] void* data, [[maybe_unused]] size_t accessible,
                         [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(data, accessible);
  ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(data) + accessible, bytes - accessible);
#endif
}

}  // namespace mxlite
