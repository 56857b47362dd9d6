// Device memory between pages without access: what a kernel reads or writes beside an allocation is
// an error, at once or after the kernel.
//
// An allocation ends at such a page, or within its alignment before one, or begins behind one; the
// rest of its pages is filled with a pattern, and writes to it are found. Allocations of one size
// are placed in these ways by turns. The alignment of data divides its size, as for a view.
#pragma once
#include <cstddef>

#include "cpp/core/stream.h"

namespace mxlite::emulated {

void* allocate_guarded(size_t bytes, size_t alignment = 1);
void free_guarded(void* data) noexcept;

// Lets the emulator find accesses beside these allocations.
void check_guarded_memory();

// The stream of kernels that run at once, in the calling thread. Every call of scratch returns new
// memory and ends the life of the memory that the call before it returned.
Stream& immediate_stream();

}  // namespace mxlite::emulated
