// Contexts of the driver. cudaSetDevice creates a context of hundreds of megabytes on every GPU
// that it is called with, even to restore the previous device. Pushing and popping contexts creates
// a context only on the GPU in use.
#pragma once

namespace mxlite::cuda {

// Makes the device's primary context, which the runtime uses, the current one of this thread.
void push_context(int device);
// Restores the context, if any, that was current before push_context.
void pop_context() noexcept;

}  // namespace mxlite::cuda
