// Host memory for tests: MXLITE_CPU_GUARD_PAGES=1 puts every array and every scratch block right
// before a page without access, so that a kernel that reads or writes past an end is stopped by
// SIGSEGV. Nothing is cached; use after release is stopped likewise.
#pragma once
#include "cpp/core/allocator.h"

namespace mxlite {

bool guard_pages_wanted();
Allocator& guarded_allocator();

}  // namespace mxlite
