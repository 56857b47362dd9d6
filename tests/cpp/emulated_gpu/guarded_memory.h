// Device memory between pages without access: what a kernel reads or writes beside an allocation is
// an error, at once or after the kernel.
//
// An allocation ends at such a page, or within its alignment before one, or begins behind one; what
// the pages have left besides is filled with a pattern, and writes to it are found. Allocations of
// one size are placed in these ways by turns. Data is aligned as far as its size is, like a view.
#pragma once
#include <cstddef>

#include "cpp/core/stream.h"

namespace mxlite::emulated {

void* allocate_guarded(size_t bytes, size_t alignment = 1);
void free_guarded(void* data) noexcept;

// Lets the emulator find accesses beside these allocations.
void check_guarded_memory();

// The stream of kernels that run at once, in the calling thread. Every call of scratch returns
// memory of its own, which ends the life of the call's before it.
Stream& immediate_stream();

}  // namespace mxlite::emulated
