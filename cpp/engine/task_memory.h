// Reuse of the memory of tasks.
#pragma once
#include <cstddef>

namespace mxlite::engine {

// Largest size, in bytes, of tasks that are allocated from thread-local free lists.
inline constexpr size_t kLargestReusedTask = 2048;

}  // namespace mxlite::engine
