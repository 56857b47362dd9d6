#include "cpp/kvstore/comm/tcp/wire.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/frame_bytes.h"

namespace mxlite::tcp {
namespace {

constexpr uint64_t kPreambleMagic = 0x31424f4a2d6c786d;  // "mxl-JOB1"
constexpr uint32_t kFrameMagic = 0x424f4a4d;             // "MJOB"
constexpr size_t kPreambleBytes = sizeof kPreambleMagic + sizeof(Nonce);

struct Header {
  uint32_t magic = kFrameMagic;
  uint8_t kind = 0;
  uint8_t reserved[3] = {};
  uint32_t body_bytes = 0;
  uint32_t padding = 0;
  uint64_t seal = 0;  // over the number of the frame, the bytes before, and the body
};
static_assert(sizeof(Header) == 24);

template <class... Args>
[[noreturn]] void refuse(const Args&... args) {
  fail(ErrorKind::kCommunicator, kJobFrame, ": ", args...);
}

uint64_t code_of(const Seal& seal, const Header& header, std::span<const std::byte> body) {
  Body data(sizeof seal.number + offsetof(Header, seal) + body.size());
  std::memcpy(data.data(), &seal.number, sizeof seal.number);
  std::memcpy(data.data() + sizeof seal.number, &header, offsetof(Header, seal));
  if (!body.empty())
    std::memcpy(data.data() + sizeof seal.number + offsetof(Header, seal), body.data(),
                body.size());
  return sip_hash(seal.key, data);
}

double read_seconds(FrameReader& r) {
  const auto value = r.number<double>();
  if (!std::isfinite(value) || value <= 0 || value > kMostSeconds)
    refuse("a time of ", value, " s");
  return value;
}

int32_t read_rank(FrameReader& r) {
  const auto rank = r.number<int32_t>();
  if (rank < 0 || rank >= kMostProcesses) refuse("rank ", rank);
  return rank;
}

void require_end(const FrameReader& r) {
  if (!r.at_end()) refuse(r.left(), " bytes after the end of a frame");
}

}  // namespace

// The values fit into what the rendezvous accepts: it drops a process that has sent others.
Body encode(const Registration& m) {
  FrameWriter w;
  w.number(m.rank);
  w.number(m.size);
  w.text(m.host.substr(0, kMostHostBytes));
  w.text(m.address);
  w.number(m.process);
  w.number(std::clamp(m.timeout, kLeastSeconds, kMostSeconds));
  w.number(std::clamp(m.silence, kLeastSeconds, kMostSeconds));
  return w.take();
}

template <>
Registration decode(std::span<const std::byte> body) {
  FrameReader r(body, kJobFrame);
  Registration m;
  m.rank = r.number<int32_t>();  // the rendezvous refuses it by name
  m.size = r.number<int32_t>();
  m.host = r.text();
  m.address = r.text();
  m.process = r.number<int64_t>();
  m.timeout = read_seconds(r);
  m.silence = read_seconds(r);
  require_end(r);
  return m;
}

Body encode(const Table& m) {
  FrameWriter w;
  w.number(static_cast<uint32_t>(m.hosts.size()));
  for (size_t i = 0; i < m.hosts.size(); ++i) {
    w.text(m.hosts[i]);
    w.text(m.addresses[i]);
  }
  return w.take();
}

template <>
Table decode(std::span<const std::byte> body) {
  FrameReader r(body, kJobFrame);
  Table m;
  const uint32_t ranks = r.count(2 * sizeof(uint32_t));
  if (ranks > kMostProcesses) refuse(ranks, " ranks");
  for (uint32_t i = 0; i < ranks; ++i) {
    m.hosts.push_back(r.text());
    m.addresses.push_back(r.text());
  }
  require_end(r);
  return m;
}

Body encode(const Departure& m) {
  FrameWriter w;
  w.number(m.rank);
  w.text(m.why);
  return w.take();
}

template <>
Departure decode(std::span<const std::byte> body) {
  FrameReader r(body, kJobFrame);
  Departure m;
  m.rank = read_rank(r);
  m.why = r.text();
  require_end(r);
  return m;
}

Body encode(const GroupFailure& m) {
  FrameWriter w;
  w.number(m.group);
  w.text(m.why);
  return w.take();
}

template <>
GroupFailure decode(std::span<const std::byte> body) {
  FrameReader r(body, kJobFrame);
  GroupFailure m;
  m.group = r.number<uint64_t>();
  m.why = r.text();
  require_end(r);
  return m;
}

Body encode(const Hello& m) {
  FrameWriter w;
  w.number(m.group);
  w.number(m.rank);
  return w.take();
}

template <>
Hello decode(std::span<const std::byte> body) {
  FrameReader r(body, kJobFrame);
  Hello m;
  m.group = r.number<uint64_t>();
  m.rank = read_rank(r);
  require_end(r);
  return m;
}

Body encode_text(const std::string& text) {
  FrameWriter w;
  w.text(text);
  return w.take();
}

std::string decode_text(std::span<const std::byte> body) {
  FrameReader r(body, kJobFrame);
  std::string text = r.text();
  require_end(r);
  return text;
}

Body seal_frame(const WireFrame& frame, Seal& seal) {
  MX_ASSERT(frame.body.size() <= kMostFrameBytes);
  Header header;
  header.kind = static_cast<uint8_t>(frame.kind);
  header.body_bytes = static_cast<uint32_t>(frame.body.size());
  header.seal = code_of(seal, header, frame.body);
  ++seal.number;
  Body bytes(sizeof header + frame.body.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  std::copy(frame.body.begin(), frame.body.end(), bytes.begin() + sizeof header);
  return bytes;
}

Body preamble(const Nonce& nonce) {
  Body bytes(kPreambleBytes);
  std::memcpy(bytes.data(), &kPreambleMagic, sizeof kPreambleMagic);
  std::memcpy(bytes.data() + sizeof kPreambleMagic, nonce.data(), sizeof nonce);
  return bytes;
}

FrameDecoder::FrameDecoder() : head_(kPreambleBytes) {}

std::span<std::byte> FrameDecoder::space() {
  switch (stage_) {
    case Stage::kPreamble:
    case Stage::kHeader:
      return std::span(head_).subspan(have_);
    case Stage::kBody:
      return std::span(body_).subspan(have_);
    case Stage::kKey:
    case Stage::kComplete:
      break;
  }
  return {};
}

void FrameDecoder::filled(size_t bytes) {
  MX_ASSERT(bytes <= space().size());
  have_ += bytes;
  if (!space().empty()) return;
  have_ = 0;
  if (stage_ == Stage::kPreamble) {
    uint64_t magic;
    std::memcpy(&magic, head_.data(), sizeof magic);
    if (magic != kPreambleMagic) refuse("bytes that are no frame");
    nonce_.emplace();
    std::memcpy(nonce_->data(), head_.data() + sizeof magic, sizeof *nonce_);
    stage_ = Stage::kKey;
  } else if (stage_ == Stage::kHeader) {
    check_header();
    stage_ = Stage::kBody;
    if (body_.empty()) check_body();
  } else {
    check_body();
  }
}

std::optional<Nonce> FrameDecoder::nonce() const { return nonce_; }

void FrameDecoder::set_key(const SealKey& key) {
  MX_ASSERT(stage_ == Stage::kKey);
  seal_.key = key;
  stage_ = Stage::kHeader;
  head_.resize(sizeof(Header));
}

void FrameDecoder::check_header() {
  Header header;
  std::memcpy(&header, head_.data(), sizeof header);
  if (header.magic != kFrameMagic) refuse("bytes that are no frame");
  if (header.kind == 0 || header.kind > kLastFrameKind)
    refuse("a frame of the unknown kind ", int{header.kind});
  if (header.body_bytes > most_)
    refuse("a frame of ", header.body_bytes, " bytes, at most ", most_, " expected");
  body_.assign(header.body_bytes, {});
}

void FrameDecoder::check_body() {
  Header header;
  std::memcpy(&header, head_.data(), sizeof header);
  if (header.seal != code_of(seal_, header, body_))
    refuse("a frame of another job (MXLITE_JOB_TOKEN), or out of its place");
  ++seal_.number;
  stage_ = Stage::kComplete;
}

WireFrame FrameDecoder::take() {
  MX_ASSERT(complete());
  WireFrame frame;
  frame.kind = static_cast<FrameKind>(std::to_integer<uint8_t>(head_[offsetof(Header, kind)]));
  frame.body = std::move(body_);
  body_.clear();
  stage_ = Stage::kHeader;
  return frame;
}

}  // namespace mxlite::tcp
