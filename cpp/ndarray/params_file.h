// Reads and writes arrays in MXNet 1.x's .params format. A file has a header, a list of arrays, and
// a list of names, which is empty if the arrays have no names. Reads all versions that MXNet 1.x
// wrote, dense and sparse. Writes the same bytes as MXNet 1.9.1.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Bytes that are read piece by piece. Files are not mapped into memory, because the process would
// end with SIGBUS if another process truncated a mapped file.
struct ByteSource {
  size_t size = 0;
  // Fills `to` with the bytes at `offset`. The caller must not exceed the size.
  std::function<void(size_t offset, std::span<std::byte> to)> read;
  std::string name;  // name in errors: "file 'a.params'"
};
ByteSource bytes_in_memory(std::span<const std::byte> bytes, std::string name);
// Returns a source that reads from a file descriptor, which the caller must keep open.
ByteSource bytes_of_file(int descriptor, size_t size, std::string name);

struct NamedArrays {
  std::vector<NDArrayRef> arrays;  // on the CPU; null for an array that was saved without a value
  std::vector<std::string> names;  // empty if the arrays have no names
};

// Checks each size against the remaining bytes before it allocates memory. Throws FileError with
// the offset if the bytes do not follow the format.
NamedArrays read_params(const ByteSource& source);
// Reads a regular file. Throws FileReadError if the system cannot read it.
NamedArrays load_params(const std::string& path);
// Reads one array that has no header and no names, as in pickles of MXNet.
NDArrayRef read_array(const ByteSource& source);

// Calls `write` with consecutive bytes. `names` is empty or has one entry per array. Arrays must be
// on the CPU. Sparse arrays must be in the normal form (sparse::normal_parts).
void write_params(std::span<const NDArrayRef> arrays, std::span<const std::string> names,
                  const std::function<void(std::span<const std::byte>)>& write);

}  // namespace mxlite
