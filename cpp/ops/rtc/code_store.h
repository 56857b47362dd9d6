// Compiled kernels on disk, one file for each key. A file that is missing, damaged or of another
// key costs a compilation, nothing else.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "cpp/ops/rtc/nvrtc.h"

namespace mxlite::rtc {

class CodeStore {
 public:
  // Files are kept in `folder`, which is made when the first one is written; empty: keeps nothing.
  explicit CodeStore(std::string folder) : folder_(std::move(folder)) {}

  std::optional<CompiledCode> find(const std::string& key) const;
  // Writes a temporary file first and renames it, so that a reader never sees half a file. Returns
  // whether the file is written.
  bool add(const std::string& key, const CompiledCode& code) const;
  std::string path_of(const std::string& key) const;

 private:
  const std::string folder_;
};

// The bytes of a file, and what they hold. `decode_code` throws a record error if the bytes are
// damaged, and returns nothing if they belong to another key.
std::string encode_code(const std::string& key, const CompiledCode& code);
std::optional<CompiledCode> decode_code(const std::string& key, std::span<const std::byte> bytes);

}  // namespace mxlite::rtc
