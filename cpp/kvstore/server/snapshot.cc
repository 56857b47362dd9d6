#include "cpp/kvstore/server/snapshot.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cpp/base/crc32c.h"
#include "cpp/base/error.h"

namespace mxlite::server {
namespace {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd& operator=(Fd&&) = delete;  // neither copied nor moved
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  const int fd_;
};

constexpr std::array<char, 8> kMagic = {'M', 'X', 'P', 'S', 'N', 'A', 'P', '1'};

[[noreturn]] void cannot(const char* what, const std::string& path) {
  fail(ErrorKind::kRecord, "parameter server: cannot ", what, " ", path, ": ",
       std::strerror(errno));
}

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) cannot("write", path);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

}  // namespace

void write_snapshot(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  const std::string fresh = path + ".new";
  const Fd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) cannot("write", fresh);
  uint32_t checksum = crc32c(kMagic.data(), kMagic.size());
  write_all(fd.get(), std::as_bytes(std::span(kMagic)), fresh);
  for (const auto& part : parts) {
    checksum = crc32c(part.data(), part.size(), checksum);
    write_all(fd.get(), part, fresh);
  }
  write_all(fd.get(), std::as_bytes(std::span(&checksum, 1)), fresh);
  if (::fdatasync(fd.get()) != 0) cannot("sync", fresh);
  if (::rename(fresh.c_str(), path.c_str()) != 0) cannot("rename", fresh);
  const std::string folder = std::filesystem::path(path).parent_path();
  const Fd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) ::fsync(directory.get());
}

std::vector<std::byte> read_snapshot(const std::string& path) {
  MX_CHECK_KIND(std::filesystem::is_regular_file(path), ErrorKind::kRecord,
                "parameter server: cannot read ", path, ": the file does not exist");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) cannot("read", path);
  std::vector<std::byte> bytes(static_cast<size_t>(std::max<std::streamoff>(0, file.tellg())));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  uint32_t checksum = 0;
  const bool whole = file && bytes.size() >= kMagic.size() + sizeof checksum &&
                     std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
  if (whole) std::memcpy(&checksum, &bytes[bytes.size() - sizeof checksum], sizeof checksum);
  MX_CHECK_KIND(whole && checksum == crc32c(bytes.data(), bytes.size() - sizeof checksum),
                ErrorKind::kRecord, "parameter server: the snapshot ", path, " is damaged");
  bytes.resize(bytes.size() - sizeof checksum);
  bytes.erase(bytes.begin(), bytes.begin() + kMagic.size());
  return bytes;
}

std::vector<std::string> files_in(const std::string& folder, const std::string& suffix) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().string().ends_with(suffix)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  MX_CHECK_KIND(!error, ErrorKind::kRecord, "parameter server: cannot create the folder ", folder,
                " of MXLITE_PS_SNAPSHOT_DIR: ", error.message());
}

}  // namespace mxlite::server
