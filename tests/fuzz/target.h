// Shared by the fuzz targets: a target feeds bytes to one parser. Parsers may return or throw an
// Error of a documented kind; everything else ends the process and is a finding.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "cpp/base/error.h"

namespace mxlite::fuzz {

using Bytes = std::span<const std::byte>;

// Runs `parse` and ends the process if it throws anything but an Error of the given kinds.
template <class Parse>
void expect(Parse parse, std::initializer_list<ErrorKind> kinds) {
  try {
    parse();
  } catch (const Error& error) {
    for (const ErrorKind kind : kinds)
      if (error.kind() == kind) return;
    std::fprintf(stderr, "undocumented kind of error: %s\n", error.what());
    std::abort();
  }
}

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not true: %s\n", what);
  std::abort();
}

// A file in memory whose content is replaced for each input.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", 0)) {
    require(descriptor_ >= 0, "memfd_create works");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void write(Bytes bytes) const {
    require(::ftruncate(descriptor_, 0) == 0, "the file can be emptied");
    require(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) ==
                static_cast<ssize_t>(bytes.size()),
            "the file can be written");
  }
  void truncate(size_t size) const {
    require(::ftruncate(descriptor_, static_cast<off_t>(size)) == 0, "the file can be cut");
  }

 private:
  int descriptor_;
};

}  // namespace mxlite::fuzz

// Called by libFuzzer for each input.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
