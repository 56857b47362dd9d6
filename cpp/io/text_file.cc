#include "cpp/io/text_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mxlite::io {
namespace {

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

TextFile::TextFile(std::string path, std::string who, int64_t part, int64_t parts)
    : path_(std::move(path)), who_(std::move(who)) {
  MX_CHECK(parts > 0 && part >= 0 && part < parts, who_, ": part_index ", part, " of num_parts ",
           parts, " given, 0 <= part_index < num_parts expected");
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  void* address = nullptr;
  int reason = 0;
  if (descriptor < 0 || ::fstat(descriptor, &info) != 0) {
    reason = errno;
  } else if (!S_ISREG(info.st_mode)) {
    reason = EISDIR;
  } else if (info.st_size > 0) {
    address =
        ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) reason = errno;
  }
  if (descriptor >= 0) ::close(descriptor);
  MX_CHECK_KIND(reason == 0, ErrorKind::kRecord, who_, ": file '", path_,
                "' cannot be read: ", std::strerror(reason));
  text_ = {static_cast<const char*>(address), static_cast<size_t>(info.st_size)};
  const auto line_start = [&](int64_t index) {
    const auto share = static_cast<size_t>((info.st_size + parts - 1) / parts);
    const size_t wanted = std::min(share * static_cast<size_t>(index), text_.size());
    if (wanted == 0) return wanted;
    const size_t end = text_.find('\n', wanted - 1);
    return end == std::string_view::npos ? text_.size() : end + 1;
  };
  begin_ = line_start(part);
  end_ = line_start(part + 1);
  rewind();
}

TextFile::~TextFile() {
  if (!text_.empty()) ::munmap(const_cast<char*>(text_.data()), text_.size());
}

bool TextFile::next(std::string_view& line) {
  while (position_ < end_) {
    const size_t stop = std::min(text_.find('\n', position_), end_);
    line = text_.substr(position_, stop - position_);
    position_ = std::min(stop + 1, end_);
    if (!blank(line)) return true;
  }
  return false;
}

void TextFile::fail_at(std::string_view line, const std::string& problem) const {
  const auto number = 1 + std::count(text_.data(), line.data(), '\n');
  constexpr size_t kShown = 60;
  fail(ErrorKind::kRecord, who_, ": file '", path_, "', line ", number, ": '",
       std::string(line.substr(0, kShown)), line.size() > kShown ? "...'" : "'", ": ", problem);
}

}  // namespace mxlite::io
