// Contexts of the driver. cudaSetDevice makes a context, which takes hundreds of megabytes, on
// every GPU that it is called with, also to restore what was current; pushing and popping makes one
// only on the GPU that is used.
#pragma once

namespace mxlite::cuda {

// Makes the device's primary context, which the runtime uses, this thread's current one.
void push_context(int device);
// Restores what was current before push_context, which may be nothing.
void pop_context() noexcept;

}  // namespace mxlite::cuda
