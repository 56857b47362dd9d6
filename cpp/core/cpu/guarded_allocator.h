// Host memory for tests. MXLITE_CPU_GUARD_PAGES=1 places every array and every scratch block
// directly before an inaccessible page, so that accesses beyond the end cause SIGSEGV. Blocks are
// not cached, so accesses after a free also cause SIGSEGV.
#pragma once
#include "cpp/core/allocator.h"

namespace mxlite {

bool guard_pages_wanted();
Allocator& guarded_allocator();

}  // namespace mxlite
