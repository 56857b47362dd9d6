// Writes and reads files of optimizer states for any number of servers.
#include <cstring>

#include "cpp/engine/blocking.h"
#include "cpp/kvstore/server/client.h"
#include "cpp/kvstore/server/snapshot.h"

namespace mxlite::server {
namespace {

struct StateHead {
  uint64_t updates = 0;
  uint8_t master = 0, exact = 0;
  uint32_t states = 0;
  bool operator==(const StateHead&) const = default;
  size_t arrays() const { return states + (master ? 1u : 0u); }
};

StateHead read_head(FrameReader& r) {
  StateHead h;
  h.updates = r.number<uint64_t>();
  h.master = r.number<uint8_t>();
  h.exact = r.number<uint8_t>();
  h.states = r.number<uint32_t>();
  MX_CHECK_KIND(h.exact <= static_cast<uint8_t>(DType::kBFloat16) && h.states <= 8,
                ErrorKind::kRecord,
                "optimizer states: the file must contain a known dtype and at most 8 states");
  return h;
}

void write_head(FrameWriter& w, const StateHead& h) {
  w.number(h.updates);
  w.number(h.master);
  w.number(h.exact);
  w.number(h.states);
}

constexpr uint32_t kStatesVersion = 1;

}  // namespace

void Client::save_states(const std::string& path) {
  if (rank() != 0) return;
  const engine::BlockingScope blocking;
  std::map<std::string, StoredKeyRef> keys;
  {
    std::lock_guard lock(mutex_);
    check_open();
    keys = keys_;
  }
  FrameWriter heads;
  heads.number(kStatesVersion);
  heads.number(static_cast<uint32_t>(keys.size()));
  std::vector<OwnBuffer> arrays;
  for (const auto& [key, stored] : keys) {
    const Layout& layout = stored->layout;
    std::vector<MemberRequest> requests;
    for (uint32_t p = 0; p < layout.parts.size(); ++p)
      requests.push_back({layout.parts[p].server,
                          {FrameType::kGetStates, 0, encode(PartName{key, p}), {}},
                          str("states of '", key, "'"),
                          nullptr});
    const std::vector<Reply> replies = call_all(std::move(requests));
    FrameReader first(replies[0].body, kFrameBody);
    const StateHead head = read_head(first);
    const size_t element = dtype_size(static_cast<DType>(head.exact));
    const size_t base = arrays.size();
    for (size_t a = 0; a < head.arrays(); ++a)
      arrays.push_back(
          OwnBuffer::allocate(static_cast<size_t>(stored->spec.shape.size()) * element));
    for (uint32_t p = 0; p < layout.parts.size(); ++p) {
      FrameReader r(replies[p].body, kFrameBody);
      MX_CHECK_KIND(read_head(r) == head, ErrorKind::kCommunicator, "save_optimizer_states: '", key,
                    "' was updated while its states were read");
      const size_t bytes = static_cast<size_t>(layout.parts[p].count) * element;
      MX_CHECK_KIND(replies[p].data.bytes == bytes * head.arrays(), ErrorKind::kCommunicator,
                    "save_optimizer_states: '", key, "': the reply must have ",
                    bytes * head.arrays(), " bytes, got ", replies[p].data.bytes);
      for (size_t a = 0; a < head.arrays() && bytes > 0; ++a)
        std::memcpy(arrays[base + a].data() + static_cast<size_t>(layout.parts[p].first) * element,
                    replies[p].data.data + a * bytes, bytes);
    }
    heads.text(key);
    heads.number(stored->spec.shape.size());
    write_head(heads, head);
  }
  const Body body = heads.take();
  std::vector<std::span<const std::byte>> parts = {body};
  for (const OwnBuffer& array : arrays) parts.emplace_back(array.data(), array.bytes);
  write_snapshot(path, parts);
}

void Client::load_states(const std::string& path) {
  if (rank() != 0) return;
  const engine::BlockingScope blocking;
  const std::vector<std::byte> bytes = read_snapshot(path);
  FrameReader r(bytes, kSnapshot);
  MX_CHECK_KIND(r.number<uint32_t>() == kStatesVersion, ErrorKind::kRecord,
                "load_optimizer_states: ", path,
                " must be written by this version of mxlite, got another version");
  struct Entry {
    StoredKeyRef stored;
    StateHead head;
  };
  std::vector<Entry> entries(r.count(26));
  for (Entry& e : entries) {
    e.stored = find(r.text());
    const auto count = r.number<int64_t>();
    e.head = read_head(r);
    MX_CHECK_SHAPE(count == e.stored->spec.shape.size(), "load_optimizer_states: ", path, ": '",
                   e.stored->key, "' has ", count, " elements, the value on the servers ",
                   e.stored->spec.shape.size());
  }
  for (const Entry& e : entries) {
    const size_t element = dtype_size(static_cast<DType>(e.head.exact));
    std::vector<OwnBuffer> arrays;
    for (size_t a = 0; a < e.head.arrays(); ++a) {
      arrays.push_back(
          OwnBuffer::allocate(static_cast<size_t>(e.stored->spec.shape.size()) * element));
      r.bytes(arrays.back().data(), arrays.back().bytes);
    }
    std::vector<MemberRequest> requests;
    for (uint32_t p = 0; p < e.stored->layout.parts.size(); ++p) {
      const ServerPart& part = e.stored->layout.parts[p];
      const size_t n = static_cast<size_t>(part.count) * element;
      const OwnBuffer data = OwnBuffer::allocate(n * arrays.size());
      for (size_t a = 0; a < arrays.size() && n > 0; ++a)
        std::memcpy(data.data() + a * n,
                    arrays[a].data() + static_cast<size_t>(part.first) * element, n);
      FrameWriter head;
      write_head(head, e.head);
      const Body text = head.take();
      FrameWriter w;
      w.text(e.stored->key);
      w.number(p);
      w.text(std::string(reinterpret_cast<const char*>(text.data()), text.size()));
      requests.push_back({part.server,
                          {FrameType::kSetStates, 0, w.take(), data.shared()},
                          str("states of '", e.stored->key, "'"),
                          nullptr});
    }
    call_all(std::move(requests));
  }
}

}  // namespace mxlite::server
