// Compiled kernels on disk, one file per key. If a file is missing, damaged or of another key, the
// kernel is compiled again.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "cpp/ops/rtc/nvrtc.h"

namespace mxlite::rtc {

class CodeStore {
 public:
  // Stores files in `folder`, which is created with the first file. If `folder` is empty, stores
  // nothing.
  explicit CodeStore(std::string folder) : folder_(std::move(folder)) {}

  std::optional<CompiledCode> find(const std::string& key) const;
  // Writes a temporary file and renames it, so that readers never see a partial file. Returns
  // whether the file was written.
  bool add(const std::string& key, const CompiledCode& code) const;
  std::string path_of(const std::string& key) const;

 private:
  const std::string folder_;
};

// Convert between the bytes of a file and its content. `decode_code` throws a record error if the
// bytes are damaged, and returns nothing if they belong to another key.
std::string encode_code(const std::string& key, const CompiledCode& code);
std::optional<CompiledCode> decode_code(const std::string& key, std::span<const std::byte> bytes);

}  // namespace mxlite::rtc
