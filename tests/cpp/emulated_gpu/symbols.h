// Names in the symbol table of the library that holds an address. Most kernels and all their shared
// variables are local to their file, so that dladdr does not know them.
#pragma once
#include <map>
#include <string>

namespace emulation {

struct LibrarySymbols {
  std::map<const void*, std::string> functions, objects;
  std::map<std::string, std::pair<size_t, size_t>> thread_locals;  // offset and bytes, by name
  size_t tls_module = 0;  // number of the library's thread-local memory; 0: it has none
};

// Returns the linker's names in the library that holds `address`, which must be on the disk at the
// first call for it. The tables are empty if the library was stripped. The result is kept.
const LibrarySymbols& symbols_around(const void* address);

}  // namespace emulation
