// Host memory for tests: MXLITE_CPU_GUARD_PAGES=1 places every array and every scratch block
// directly before an inaccessible page, so that a kernel that accesses memory beyond the end gets
// SIGSEGV. Blocks are not cached, so a use after free also gets SIGSEGV.
#pragma once
#include "cpp/core/allocator.h"

namespace mxlite {

bool guard_pages_wanted();
Allocator& guarded_allocator();

}  // namespace mxlite
