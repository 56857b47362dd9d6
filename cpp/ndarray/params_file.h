// Arrays in files: the .params format of MXNet 1.x, which is a header, a list of arrays, and a list
// of names (only if the arrays have names). All versions that MXNet 1.x wrote are read, dense and
// sparse; what is written is byte for byte what 1.9.1 writes.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Bytes that are read piece by piece. Files are not mapped into memory: that would end the process
// with SIGBUS if another process truncated the file.
struct ByteSource {
  size_t size = 0;
  // Fills `to` with the bytes at `offset`; the caller stays inside the size.
  std::function<void(size_t offset, std::span<std::byte> to)> read;
  std::string name;  // in errors: "file 'a.params'"
};
ByteSource bytes_in_memory(std::span<const std::byte> bytes, std::string name);
// Reads from an open descriptor, which the caller keeps open.
ByteSource bytes_of_file(int descriptor, size_t size, std::string name);

struct NamedArrays {
  std::vector<NDArrayRef> arrays;  // on the CPU; null where the file has an array without value
  std::vector<std::string> names;  // empty: the arrays have no names
};

// Each size is compared with the rest of the source before memory is allocated. Throws FileError
// with the offset if the bytes are not what the format demands.
NamedArrays read_params(const ByteSource& source);
// Reads a regular file. Throws FileReadError if the system cannot read it.
NamedArrays load_params(const std::string& path);
// Reads one array, as MXNet's pickles hold it.
NDArrayRef read_array(const ByteSource& source);

// Calls `write` with consecutive bytes. `names` is empty or has one entry for each array. Arrays
// are on the CPU, and sparse ones are in the normal form (sparse::normal_parts).
void write_params(std::span<const NDArrayRef> arrays, std::span<const std::string> names,
                  const std::function<void(std::span<const std::byte>)>& write);

}  // namespace mxlite
