#include "cpp/kvstore/request.h"

#include <array>

#include "cpp/base/error.h"

namespace mxlite {

const char* collective_name(CollectiveKind kind) {
  constexpr std::array<const char*, kNumCollectiveKinds> kNames = {
      "allreduce",     "allgather", "broadcast",       "alltoall",
      "reducescatter", "barrier",   "add_process_set", "remove_process_set"};
  return kNames[static_cast<size_t>(kind)];
}

int64_t Request::elements() const {
  uint64_t n = 1;  // of a damaged frame: wraps around
  for (const int64_t d : shape) n *= static_cast<uint64_t>(d);
  return static_cast<int64_t>(n);
}

bool Request::same_terms(const Request& o) const {
  return kind == o.kind && dtype == o.dtype && op == o.op && set == o.set && root == o.root &&
         device == o.device && prescale == o.prescale && postscale == o.postscale &&
         shape == o.shape && splits == o.splits && group_size == o.group_size && group == o.group &&
         failure == o.failure;
}

const std::string& Request::key() const {
  if (key_.empty()) key_ = std::to_string(set) + ':' + name;
  return key_;
}

SharedRequest::SharedRequest(Request request) : terms(std::move(request)), bytes(terms.bytes()) {
  terms.key();  // before other threads see it
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += str(i ? ", " : "", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

void FrameWriter::text(const std::string& value) {
  number(static_cast<uint32_t>(value.size()));
  const auto* p = reinterpret_cast<const std::byte*>(value.data());
  bytes_.insert(bytes_.end(), p, p + value.size());
}

void FrameWriter::numbers(std::span<const int64_t> values) {
  number(static_cast<uint32_t>(values.size()));
  for (const int64_t v : values) number(v);
}

void FrameWriter::request(const Request& r) {
  text(r.name);
  number(static_cast<uint8_t>(r.kind));
  number(static_cast<uint8_t>(r.dtype));
  number(static_cast<uint8_t>(r.op));
  number(r.set);
  number(r.root);
  number(r.device);
  number(r.prescale);
  number(r.postscale);
  numbers(r.shape);
  numbers(r.splits);
  text(r.group);
  number(r.group_size);
  text(r.failure);
}

std::vector<int64_t> FrameReader::numbers() {
  std::vector<int64_t> values(count(sizeof(int64_t)));
  for (int64_t& v : values) v = number<int64_t>();
  return values;
}

Request FrameReader::request() {
  Request r;
  r.name = text();
  const auto kind = number<uint8_t>();
  const auto dtype = number<uint8_t>();
  const auto op = number<uint8_t>();
  MX_CHECK_KIND(kind < kNumCollectiveKinds && dtype <= static_cast<uint8_t>(DType::kBFloat16) &&
                    op <= static_cast<uint8_t>(ReduceOp::kMax),
                ErrorKind::kCommunicator, "a frame of the negotiation holds an unknown operation");
  r.kind = static_cast<CollectiveKind>(kind);
  r.dtype = static_cast<DType>(dtype);
  r.op = static_cast<ReduceOp>(op);
  r.set = number<int32_t>();
  r.root = number<int32_t>();
  r.device = number<int32_t>();
  r.prescale = number<double>();
  r.postscale = number<double>();
  r.shape = numbers();
  r.splits = numbers();
  r.group = text();
  r.group_size = number<int32_t>();
  r.failure = text();
  return r;
}

}  // namespace mxlite
