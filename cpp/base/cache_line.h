#pragma once
#include <cstddef>

namespace mxlite {

// Size of a cache line of the processor.
inline constexpr std::size_t kCacheLineBytes = 64;

}  // namespace mxlite
