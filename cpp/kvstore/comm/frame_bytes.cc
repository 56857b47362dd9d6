#include "cpp/kvstore/comm/frame_bytes.h"

namespace mxlite {

void FrameWriter::text(const std::string& value) {
  number(static_cast<uint32_t>(value.size()));
  const auto* p = reinterpret_cast<const std::byte*>(value.data());
  bytes_.insert(bytes_.end(), p, p + value.size());
}

void FrameWriter::numbers(std::span<const int64_t> values) {
  number(static_cast<uint32_t>(values.size()));
  for (const int64_t v : values) number(v);
}

std::vector<int64_t> FrameReader::numbers() {
  std::vector<int64_t> values(count(sizeof(int64_t)));
  for (int64_t& v : values) v = number<int64_t>();
  return values;
}

}  // namespace mxlite
