#include "cpp/kvstore/server/messages.h"

namespace mxlite::server {
namespace {

template <class Message>
Message checked(const FrameReader& reader, Message message) {
  MX_CHECK_KIND(reader.at_end(), ErrorKind::kCommunicator,
                "parameter server: a frame is longer than its type says");
  return message;
}

template <class Enum>
Enum enumerator(FrameReader& reader, Enum last) {
  const auto value = reader.number<uint8_t>();
  MX_CHECK_KIND(value <= static_cast<uint8_t>(last), ErrorKind::kCommunicator,
                "parameter server: a frame holds the unknown value ", int{value});
  return static_cast<Enum>(value);
}

template <class Enum>
void put(FrameWriter& writer, Enum value) {
  writer.number(static_cast<uint8_t>(value));
}

bool flag(FrameReader& reader) { return reader.number<uint8_t>() != 0; }

void put_members(FrameWriter& w, const std::vector<MemberState>& members) {
  w.number(static_cast<uint32_t>(members.size()));
  for (const MemberState& m : members) {
    put(w, m.status);
    w.number(m.incarnation);
    w.text(m.address);
  }
}

std::vector<MemberState> members(FrameReader& r) {
  std::vector<MemberState> list(r.count(9));
  for (MemberState& m : list) {
    m.status = enumerator(r, MemberStatus::kLeft);
    m.incarnation = r.number<uint32_t>();
    m.address = r.text();
  }
  return list;
}

}  // namespace

Body encode(const Hello& m) {
  FrameWriter w;
  w.text(m.version);
  put(w, m.role);
  w.number(m.rank);
  w.number(m.incarnation);
  return w.take();
}
template <>
Hello decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  Hello m;
  m.version = r.text();
  m.role = enumerator(r, Role::kWorker);
  m.rank = r.number<int32_t>();
  m.incarnation = r.number<uint32_t>();
  return checked(r, m);
}

Body encode(const Welcome& m) {
  FrameWriter w;
  w.number(uint8_t{m.snapshots});
  return w.take();
}
template <>
Welcome decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  Welcome m;
  m.snapshots = flag(r);
  return checked(r, m);
}

Body encode(const Registration& m) {
  FrameWriter w;
  put(w, m.role);
  w.number(m.rank);
  w.text(m.host);
  w.number(m.process);
  w.text(m.address);
  w.number(uint8_t{m.snapshots});
  w.number(m.num_workers);
  w.number(m.num_servers);
  return w.take();
}
template <>
Registration decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  Registration m;
  m.role = enumerator(r, Role::kWorker);
  m.rank = r.number<int32_t>();
  m.host = r.text();
  m.process = r.number<int64_t>();
  m.address = r.text();
  m.snapshots = flag(r);
  m.num_workers = r.number<int32_t>();
  m.num_servers = r.number<int32_t>();
  return checked(r, m);
}

Body encode(const Registered& m) {
  FrameWriter w;
  w.number(m.rank);
  w.number(m.epoch);
  w.number(m.incarnation);
  w.number(uint8_t{m.rejoined});
  return w.take();
}
template <>
Registered decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  Registered m;
  m.rank = r.number<int32_t>();
  m.epoch = r.number<uint32_t>();
  m.incarnation = r.number<uint32_t>();
  m.rejoined = flag(r);
  return checked(r, m);
}

Body encode(const Heartbeat& m) {
  FrameWriter w;
  w.number(m.state_version);
  w.text(m.progress);
  return w.take();
}
template <>
Heartbeat decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  Heartbeat m;
  m.state_version = r.number<uint64_t>();
  m.progress = r.text();
  return checked(r, m);
}

Body encode(const JobState& m) {
  FrameWriter w;
  w.number(m.version);
  w.number(uint8_t{m.running});
  w.number(uint8_t{m.ended});
  w.text(m.failure);
  put_members(w, m.workers);
  put_members(w, m.servers);
  return w.take();
}
template <>
JobState decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  JobState m;
  m.version = r.number<uint64_t>();
  m.running = flag(r);
  m.ended = flag(r);
  m.failure = r.text();
  m.workers = members(r);
  m.servers = members(r);
  return checked(r, m);
}

Body encode(const PlaceRequest& m) {
  FrameWriter w;
  w.number(static_cast<uint32_t>(m.keys.size()));
  for (const std::string& key : m.keys) w.text(key);
  w.numbers(m.bytes);
  for (const std::string& spec : m.specs) w.text(spec);
  w.number(uint8_t{m.settled});
  return w.take();
}
template <>
PlaceRequest decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  PlaceRequest m;
  m.keys.resize(r.count(4));
  for (std::string& key : m.keys) key = r.text();
  m.bytes = r.numbers();
  MX_CHECK_KIND(m.bytes.size() == m.keys.size(), ErrorKind::kCommunicator,
                "parameter server: a request with ", m.keys.size(), " keys and ", m.bytes.size(),
                " sizes");
  m.specs.resize(m.keys.size());
  for (std::string& spec : m.specs) spec = r.text();
  m.settled = flag(r);
  return checked(r, m);
}

Body encode(const PartSpec& m) {
  FrameWriter w;
  w.text(m.key);
  w.number(m.part);
  put(w, m.dtype);
  w.number(m.count);
  w.number(m.row_size);
  w.number(m.first_row);
  return w.take();
}
template <>
PartSpec decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  PartSpec m;
  m.key = r.text();
  m.part = r.number<uint32_t>();
  m.dtype = enumerator(r, DType::kBFloat16);
  m.count = r.number<int64_t>();
  m.row_size = r.number<int64_t>();
  m.first_row = r.number<int64_t>();
  MX_CHECK_KIND(m.count >= 0 && m.count <= static_cast<int64_t>(kMostData) && m.row_size >= 1 &&
                    m.count % m.row_size == 0 && m.first_row >= 0,
                ErrorKind::kCommunicator, "parameter server: a part of ", m.count,
                " elements in rows of ", m.row_size);
  return checked(r, m);
}

Body encode(const PushHeader& m) {
  FrameWriter w;
  w.text(m.key);
  w.number(m.part);
  w.number(m.step);
  put(w, m.form);
  put(w, m.dtype);
  w.number(m.threshold);
  w.numbers(m.rows);
  return w.take();
}
template <>
PushHeader decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  PushHeader m;
  m.key = r.text();
  m.part = r.number<uint32_t>();
  m.step = r.number<uint64_t>();
  m.form = enumerator(r, PushForm::kOneBit);
  m.dtype = enumerator(r, DType::kBFloat16);
  m.threshold = r.number<float>();
  m.rows = r.numbers();
  return checked(r, m);
}

Body encode(const PullHeader& m) {
  FrameWriter w;
  w.text(m.key);
  w.number(m.part);
  w.number(m.step);
  w.number(uint8_t{m.by_rows});
  w.numbers(m.rows);
  return w.take();
}
template <>
PullHeader decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  PullHeader m;
  m.key = r.text();
  m.part = r.number<uint32_t>();
  m.step = r.number<uint64_t>();
  m.by_rows = flag(r);
  m.rows = r.numbers();
  return checked(r, m);
}

Body encode(const PartName& m) {
  FrameWriter w;
  w.text(m.key);
  w.number(m.part);
  return w.take();
}
template <>
PartName decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  PartName m;
  m.key = r.text();
  m.part = r.number<uint32_t>();
  return checked(r, m);
}

Body encode(const Command& m) {
  FrameWriter w;
  w.number(m.number);
  w.number(m.head);
  w.text(m.name);
  w.text(m.text);
  return w.take();
}
template <>
Command decode(const Body& body) {
  FrameReader r(body, kFrameBody);
  Command m;
  m.number = r.number<uint64_t>();
  m.head = r.number<int32_t>();
  m.name = r.text();
  m.text = r.text();
  return checked(r, m);
}

Body encode_text(const std::string& text) {
  FrameWriter w;
  w.text(text);
  return w.take();
}
std::string decode_text(const Body& body) {
  FrameReader r(body, kFrameBody);
  std::string text = r.text();
  return checked(r, text);
}

Body encode_number(uint64_t number) {
  FrameWriter w;
  w.number(number);
  return w.take();
}
uint64_t decode_number(const Body& body) {
  FrameReader r(body, kFrameBody);
  const auto number = r.number<uint64_t>();
  return checked(r, number);
}

std::string scope_of(const std::string& name) {
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos || name[digits] != ':') return "";
  return name[0] == '0' ? "" : name.substr(0, digits + 1);
}

Reply error_reply(ErrorKind kind, const std::string& text) { return {Error(kind, text), {}, {}}; }

Frame reply_frame(uint64_t request, Reply reply) {
  FrameWriter w;
  w.number(uint8_t{reply.error.has_value()});
  if (reply.error) {
    put(w, reply.error->kind());
    w.text(reply.error->what());
  }
  Body body = w.take();
  body.insert(body.end(), reply.body.begin(), reply.body.end());
  return {FrameType::kReply, request, std::move(body), std::move(reply.data)};
}

Reply reply_of(Frame frame) {
  FrameReader r(frame.body, kFrameBody);
  Reply reply;
  if (flag(r)) {
    const ErrorKind kind = enumerator(r, ErrorKind::kNotSupported);
    reply.error = Error(kind, r.text());
  } else {
    reply.body.assign(frame.body.begin() + 1, frame.body.end());
    reply.data = std::move(frame.data);
  }
  return reply;
}

}  // namespace mxlite::server
