// Reuse of the memory of tasks.
#pragma once
#include <cstddef>

namespace mxlite::engine {

// Tasks of at most that many bytes are allocated from thread-local free lists.
inline constexpr size_t kLargestReusedTask = 2048;

}  // namespace mxlite::engine
