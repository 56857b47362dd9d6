#include "cpp/ops/rtc/code_store.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cpp/base/byte_reader.h"
#include "cpp/base/crc32c.h"
#include "cpp/base/hash.h"

namespace mxlite::rtc {
namespace {

namespace fs = std::filesystem;

// File format: magic, checksum of the rest, key, number of names, pairs of names, image. A text or
// image is stored as its number of bytes (64 bits) and the bytes.
constexpr char kMagic[] = "mxlite code 1\n";
constexpr size_t kMagicBytes = sizeof kMagic - 1;
constexpr uintmax_t kMostFileBytes = 256 << 20;
constexpr size_t kLeastPairBytes = 2 * sizeof(uint64_t);

void append(std::string& to, const void* bytes, size_t count) {
  to.append(static_cast<const char*>(bytes), count);
}
void append_sized(std::string& to, const void* bytes, uint64_t count) {
  append(to, &count, sizeof count);
  append(to, bytes, count);
}
std::span<const std::byte> take_sized(ByteReader& reader) {
  return reader.take(reader.number<uint64_t>());
}
std::string take_text(ByteReader& reader) {
  const auto bytes = take_sized(reader);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the hash for the file name. Keys with equal hashes share a file, whose content shows for
// which key it is.
uint64_t hash_of(const std::string& text) {
  return mxlite::hash_of(std::as_bytes(std::span(text)));
}

}  // namespace

std::string encode_code(const std::string& key, const CompiledCode& code) {
  std::string body;
  append_sized(body, key.data(), key.size());
  const auto count = static_cast<uint32_t>(code.names.size());
  append(body, &count, sizeof count);
  for (const auto& [expression, name] : code.names) {
    append_sized(body, expression.data(), expression.size());
    append_sized(body, name.data(), name.size());
  }
  append_sized(body, code.image.data(), code.image.size());
  const uint32_t checksum = crc32c(body.data(), body.size());
  std::string file(kMagic, kMagicBytes);
  append(file, &checksum, sizeof checksum);
  return file + body;
}

std::optional<CompiledCode> decode_code(const std::string& key, std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "file of a compiled kernel");
  const auto magic = reader.take(kMagicBytes);
  MX_CHECK_KIND(std::memcmp(magic.data(), kMagic, kMagicBytes) == 0, ErrorKind::kRecord,
                "file of a compiled kernel: the file must begin with the mark of this format");
  const auto checksum = reader.number<uint32_t>();
  const auto body = bytes.subspan(reader.offset());
  MX_CHECK_KIND(crc32c(body.data(), body.size()) == checksum, ErrorKind::kRecord,
                "file of a compiled kernel: the checksum is wrong");
  if (take_text(reader) != key) return std::nullopt;
  CompiledCode code;
  const uint32_t count = reader.count(kLeastPairBytes);
  for (uint32_t i = 0; i < count; ++i) {
    std::string expression = take_text(reader);
    code.names[std::move(expression)] = take_text(reader);
  }
  const auto image = take_sized(reader);
  MX_CHECK_KIND(!image.empty() && reader.at_end(), ErrorKind::kRecord,
                "file of a compiled kernel: the file must end after the image of ", image.size(),
                " bytes, got ", reader.left(), " more bytes");
  code.image.assign(image.begin(), image.end());
  return code;
}

std::string CodeStore::path_of(const std::string& key) const {
  char name[32];
  std::snprintf(name, sizeof name, "%016llx.kernel", static_cast<unsigned long long>(hash_of(key)));
  return folder_ + "/" + name;
}

std::optional<CompiledCode> CodeStore::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = path_of(key);
  std::error_code failed;
  const uintmax_t size = fs::file_size(path, failed);
  if (failed || size > kMostFileBytes) return std::nullopt;
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) return std::nullopt;
  try {
    return decode_code(key, std::as_bytes(std::span(bytes)));
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool CodeStore::add(const std::string& key, const CompiledCode& code) const {
  if (folder_.empty()) return false;
  std::error_code failed;
  fs::create_directories(folder_, failed);
  static std::atomic<int> counter{0};
  const std::string path = path_of(key), beside = str(path, ".", getpid(), ".", counter++);
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    const std::string bytes = encode_code(key, code);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.flush();
    if (!file) {
      std::remove(beside.c_str());
      return false;
    }
  }
  if (std::rename(beside.c_str(), path.c_str()) == 0) return true;
  std::remove(beside.c_str());
  return false;
}

}  // namespace mxlite::rtc
