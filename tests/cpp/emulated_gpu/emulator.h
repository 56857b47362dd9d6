// The emulator's functions besides CUDA's own interface.
#pragma once

namespace emulation {

// Names the kernels that this thread launches from now on, for errors. The pointer is kept.
void name_next_grid(const char* kernel);

}  // namespace emulation
