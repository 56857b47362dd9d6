// Record files: every record is read in order, again after a search for heads, and after the file
// was truncated.
#include "cpp/io/record_file.h"

#include "tests/fuzz/target.h"

using namespace mxlite;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::MemoryFile file;
  file.write(std::as_bytes(std::span(data, size)));
  io::RecordReader reader(file.path());
  io::Record record;
  bool more = true;
  for (size_t steps = 0; more; ++steps) {
    fuzz::require(steps <= size, "the reader makes progress");
    more = reader.tell() < reader.file().size();
    fuzz::expect([&] { more = reader.next(record); }, {ErrorKind::kRecord});
  }
  io::RecordFile again(file.path());
  for (int64_t at = again.find_head(0); at < again.size(); at = again.find_head(at + 4))
    fuzz::expect([&] { again.read(at, record); }, {ErrorKind::kRecord});
  file.truncate(size / 2);
  for (int64_t at = 0; at < again.size(); at += 64)
    fuzz::expect([&] { again.read(at, record); }, {ErrorKind::kRecord});
  return 0;
}
