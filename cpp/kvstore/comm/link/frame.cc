#include "cpp/kvstore/comm/link/frame.h"

#include <algorithm>
#include <cstring>

#include "cpp/base/crc32c.h"

namespace mxlite {
namespace {

constexpr uint32_t kMagic = 0x5350584d;  // "MXPS"
constexpr uint16_t kFormat = 3;
constexpr size_t kCheckedBytes = offsetof(FrameHeader, header_checksum);
constexpr size_t kWorthDirect = 16 << 10;

// Authenticates the body. The key differs from the key of seal_of, so that a body's code is not
// valid for a header.
uint64_t body_seal_of(const std::vector<std::byte>& body, const SealKey& key) {
  return sip_hash({key.a, ~key.b}, body);
}

// Authenticates the whole header, which contains the codes of body and data.
uint64_t seal_of(const FrameHeader& header, const SealKey& key, uint64_t number) {
  struct {
    uint64_t number;
    FrameHeader header;
  } sealed = {number, header};
  sealed.header.seal = 0;
  sealed.header.header_checksum = 0;
  return sip_hash(key, std::as_bytes(std::span(&sealed, 1)));
}

template <class... Args>
[[noreturn]] void refuse(BadFrame kind, const Args&... args) {
  throw FrameError(kind, str("connection of a job: ", args...));
}

}  // namespace

const char* bad_frame_name(BadFrame kind) {
  constexpr std::array<const char*, kNumBadFrames> kNames = {
      "magic", "format", "checksum", "token", "epoch", "type", "length", "content", "order"};
  return kNames[static_cast<size_t>(kind)];
}

FrameHeader make_header(const Frame& frame, const FrameStamp& stamp) {
  MX_ASSERT(frame.body.size() <= kMostBody && frame.data.bytes <= kMostData);
  FrameHeader h;
  h.magic = kMagic;
  h.format = kFormat;
  h.type = static_cast<uint8_t>(frame.type);
  h.request = frame.request;
  h.epoch = stamp.epoch;
  h.body_bytes = static_cast<uint32_t>(frame.body.size());
  h.data_bytes = static_cast<uint32_t>(frame.data.bytes);
  h.data_checksum = crc32c(frame.data.data, frame.data.bytes);
  h.body_seal = body_seal_of(frame.body, stamp.key);
  h.seal = seal_of(h, stamp.key, stamp.number);
  h.header_checksum = crc32c(&h, kCheckedBytes);
  return h;
}

size_t FrameDecoder::copy(std::byte* to, size_t have, size_t want,
                          std::span<const std::byte> from) {
  const size_t n = std::min(want - have, from.size());
  if (n > 0) std::memcpy(to + have, from.data(), n);
  return n;
}

size_t FrameDecoder::feed(std::span<const std::byte> bytes) {
  size_t used = 0;
  if (header_have_ < sizeof header_) {
    used = copy(reinterpret_cast<std::byte*>(&header_), header_have_, sizeof header_, bytes);
    header_have_ += used;
    if (header_have_ < sizeof header_) return used;
    check_header();
  }
  size_t n = copy(body_.data(), body_have_, body_.size(), bytes.subspan(used));
  body_have_ += n;
  used += n;
  n = copy(data_.data(), data_have_, data_.bytes, bytes.subspan(used));
  filled(n);
  return used + n;
}

size_t FrameDecoder::wanted() const {
  if (header_have_ < sizeof header_) return sizeof header_ - header_have_;
  return body_.size() - body_have_ + data_.bytes - data_have_;
}

std::span<std::byte> FrameDecoder::direct() {
  if (header_have_ < sizeof header_ || body_have_ < body_.size()) return {};
  if (data_.bytes - data_have_ < kWorthDirect) return {};
  return {data_.data() + data_have_, data_.bytes - data_have_};
}

void FrameDecoder::filled(size_t n) {
  data_have_ += n;
  if (body_have_ < body_.size() || data_have_ < data_.bytes) return;
  check_content();
  complete_ = true;
}

void FrameDecoder::check_header() {
  const FrameHeader& h = header_;
  if (h.magic != kMagic) refuse(BadFrame::kMagic, "the bytes must begin with the mark of a frame");
  if (h.header_checksum != crc32c(&h, kCheckedBytes))
    refuse(BadFrame::kChecksum, "the checksum of the frame's header is wrong");
  if (h.format != kFormat)
    refuse(BadFrame::kFormat, "the format of the frame must be ", kFormat, ", got ", h.format);
  // Compares codes in constant time.
  if (h.seal != seal_of(h, key_, number_))
    refuse(BadFrame::kToken,
           "the frame belongs to another job (its token differs) or comes in a wrong order");
  if (h.epoch != 0 && epoch_ != 0 && h.epoch != epoch_)
    refuse(BadFrame::kEpoch, "the frame belongs to another run of the job");
  if (h.type == 0 || h.type > kLastFrameType || h.reserved != 0 || h.padding != 0)
    refuse(BadFrame::kType, "the type of the frame must be known, got ", int{h.type});
  const bool fits = trusted_ ? h.body_bytes <= kMostBody && h.data_bytes <= kMostData
                             : h.body_bytes <= kMostForeign && h.data_bytes == 0;
  if (!fits)
    refuse(BadFrame::kLength, "a frame of ", h.body_bytes, " and ", h.data_bytes, " bytes");
  body_.resize(h.body_bytes);
  data_ = h.data_bytes > 0 ? OwnBuffer::allocate(h.data_bytes) : OwnBuffer{};
}

void FrameDecoder::check_content() {
  if (header_.body_seal != body_seal_of(body_, key_) ||
      header_.data_checksum != crc32c(data_.data(), data_.bytes))
    refuse(BadFrame::kChecksum, "the checksum of the frame's content is wrong");
}

Frame FrameDecoder::take() {
  Frame frame;
  frame.type = static_cast<FrameType>(header_.type);
  frame.request = header_.request;
  frame.body = std::move(body_);
  frame.data = data_.shared();
  body_.clear();
  data_ = {};
  header_have_ = body_have_ = data_have_ = 0;
  complete_ = false;
  ++number_;
  return frame;
}

}  // namespace mxlite
