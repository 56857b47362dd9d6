// The emulator's functions besides CUDA's own interface.
#pragma once

namespace emulation {

// Names the kernels that this thread launches from now on, for errors. The pointer is kept.
void name_next_grid(const char* kernel);

// Reads the symbol table of the library that holds `address`, which names the shared variables of
// its kernels. Must be called before the library's file is removed.
void read_symbols_around(const void* address);

}  // namespace emulation
