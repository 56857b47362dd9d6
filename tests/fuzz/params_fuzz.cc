// Files of arrays: what is read and written again equals itself.
#include "cpp/ndarray/params_file.h"
#include "cpp/ndarray/sparse.h"
#include "tests/fuzz/target.h"

using namespace mxlite;

namespace {

std::string written(const NamedArrays& named) {
  std::string bytes;
  write_params(named.arrays, named.names, [&](fuzz::Bytes piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  return bytes;
}

NamedArrays read(fuzz::Bytes bytes) { return read_params(bytes_in_memory(bytes, "fuzz")); }

// The writer takes neither arrays without value nor rows out of order.
bool can_be_written(const NDArrayRef& array) {
  return array && (!array->is_sparse() || sparse_parts(*array).form == SparseForm::kNormal);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::expect(
      [&] {
        const NamedArrays found = read(std::as_bytes(std::span(data, size)));
        for (const NDArrayRef& array : found.arrays)
          if (!can_be_written(array)) return;
        const std::string bytes = written(found);
        fuzz::require(written(read(std::as_bytes(std::span(bytes)))) == bytes,
                      "what is written is read as the same");
      },
      {ErrorKind::kValue});
  return 0;
}
