#include "cpp/io/text_file.h"

#include <algorithm>

namespace mxlite::io {
namespace {

constexpr size_t kBlock = 256 << 10;
constexpr int64_t kLongestLine = int64_t{256} << 20;

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

TextFile::TextFile(std::string path, std::string who, int64_t part, int64_t parts)
    : path_(std::move(path)), who_(std::move(who)), file_(path_, who_ + ": file"), buffer_(kBlock) {
  MX_CHECK(parts > 0 && part >= 0 && part < parts, who_,
           ": part_index must be at least 0 and below num_parts, got part_index ", part,
           " and num_parts ", parts);
  const int64_t size = file_.size(), share = size / parts + (size % parts != 0);
  const auto line_start = [&](int64_t index) {
    const int64_t wanted = index > size / std::max<int64_t>(share, 1) ? size : share * index;
    return wanted == 0 ? 0 : line_end(wanted - 1, size);
  };
  begin_ = line_start(part);
  end_ = line_start(part + 1);
  rewind();
}

std::string_view TextFile::text(int64_t offset, size_t size, ReadBuffer& buffer) const {
  const auto bytes = file_.read(offset, size, buffer);
  if (bytes.size() < size)
    fail(ErrorKind::kRecord, who_, ": file '", path_, "' of ", file_.size(),
         " bytes was truncated while it was read");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int64_t TextFile::line_end(int64_t offset, int64_t limit) {
  while (offset < limit) {
    const auto size = static_cast<size_t>(std::min<int64_t>(limit - offset, kBlock));
    const size_t found = text(offset, size, buffer_).find('\n');
    if (found != std::string_view::npos) return offset + static_cast<int64_t>(found) + 1;
    offset += static_cast<int64_t>(size);
  }
  return limit;
}

bool TextFile::next(std::string_view& line) {
  while (position_ < end_) {
    line_begin_ = position_;
    const int64_t left = end_ - position_;
    std::string_view piece;
    size_t found = std::string_view::npos;
    // Most lines end within the first 4 KiB, which are buffered.
    for (int64_t size = 4096; found == std::string_view::npos; size *= 4) {
      const size_t searched = piece.size();
      piece = text(position_, static_cast<size_t>(std::min(size, left)), buffer_);
      found = piece.find('\n', searched);
      if (std::ssize(piece) == left) break;
      MX_CHECK_KIND(size <= kLongestLine, ErrorKind::kRecord, who_, ": file '", path_, "', offset ",
                    position_, ": a line must have at most ", kLongestLine, " bytes");
    }
    line = piece.substr(0, found);
    position_ = std::min(position_ + std::ssize(line) + 1, end_);
    if (!blank(line)) return true;
  }
  return false;
}

void TextFile::fail_at(std::string_view line, const std::string& problem) const {
  int64_t number = 1;
  ReadBuffer buffer;
  for (int64_t at = 0; at < line_begin_;) {
    const auto size = static_cast<size_t>(std::min<int64_t>(line_begin_ - at, kBlock));
    const auto bytes = file_.read(at, size, buffer);
    if (bytes.empty()) break;
    number += std::count(bytes.begin(), bytes.end(), std::byte{'\n'});
    at += std::ssize(bytes);
  }
  constexpr size_t kShown = 60;
  fail(ErrorKind::kRecord, who_, ": file '", path_, "', line ", number, ": '",
       std::string(line.substr(0, kShown)), line.size() > kShown ? "...'" : "'", ": ", problem);
}

}  // namespace mxlite::io
