#include "cpp/jobs/request.h"

#include <algorithm>
#include <array>

#include "cpp/base/error.h"
#include "cpp/base/hash.h"

namespace mxlite::jobs {

const char* collective_name(CollectiveKind kind) {
  constexpr std::array<const char*, kNumCollectiveKinds> kNames = {
      "allreduce", "allgather",       "broadcast",          "alltoall", "reducescatter",
      "barrier",   "add_process_set", "remove_process_set", "reduce",   "message"};
  return kNames[static_cast<size_t>(kind)];
}

std::string activity_name(CollectiveKind kind) {
  std::string name = collective_name(kind);
  std::transform(name.begin(), name.end(), name.begin(), ::toupper);
  return name;
}

int64_t Request::elements() const {
  uint64_t n = 1;  // unsigned, because a damaged frame may cause overflow
  for (const int64_t d : shape) n *= static_cast<uint64_t>(d);
  return static_cast<int64_t>(n);
}

bool Request::same_terms(const Request& o) const {
  return kind == o.kind && dtype == o.dtype && op == o.op && set == o.set && root == o.root &&
         device == o.device && prescale == o.prescale && postscale == o.postscale &&
         shape == o.shape && splits == o.splits && same_shapes == o.same_shapes &&
         group_size == o.group_size && group == o.group && failure == o.failure && later == o.later;
}

const std::string& Request::key() const {
  if (key_.empty()) key_ = std::to_string(set) + ':' + name;
  return key_;
}

SharedRequest::SharedRequest(Request request) : terms(std::move(request)), bytes(terms.bytes()) {
  terms.key();  // computes the key before other threads can access the object
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += str(i ? ", " : "", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

uint64_t call_hash(const Request& request) {
  Request common = request;
  common.failure.clear();
  common.later = 0;
  if (common.device > 0) common.device = 0;
  if (common.kind == CollectiveKind::kAllGather && !common.same_shapes && !common.shape.empty())
    common.shape[0] = 0;
  FrameWriter bytes;
  write_request(bytes, common);
  return hash_of(bytes.take());
}

uint64_t SharedRequest::hash() const {
  uint64_t known = hash_.load(std::memory_order_relaxed);
  if (known == 0) hash_.store(known = call_hash(terms), std::memory_order_relaxed);
  return known;
}

void write_request(FrameWriter& frame, const Request& r) {
  frame.text(r.name);
  frame.number(static_cast<uint8_t>(r.kind));
  frame.number(static_cast<uint8_t>(r.dtype));
  frame.number(static_cast<uint8_t>(r.op));
  frame.number(r.set);
  frame.number(r.root);
  frame.number(r.device);
  frame.number(r.prescale);
  frame.number(r.postscale);
  frame.numbers(r.shape);
  frame.numbers(r.splits);
  frame.number(static_cast<uint8_t>(r.same_shapes));
  frame.text(r.group);
  frame.number(r.group_size);
  frame.text(r.failure);
  frame.number(r.later);
}

Request read_request(FrameReader& frame) {
  Request r;
  r.name = frame.text();
  const auto kind = frame.number<uint8_t>();
  const auto dtype = frame.number<uint8_t>();
  const auto op = frame.number<uint8_t>();
  MX_CHECK_KIND(kind < kNumCollectiveKinds && dtype <= static_cast<uint8_t>(DType::kBFloat16) &&
                    op <= static_cast<uint8_t>(ReduceOp::kMax),
                ErrorKind::kCommunicator, kNegotiationFrame,
                " must contain a known operation, dtype and reduction");
  r.kind = static_cast<CollectiveKind>(kind);
  r.dtype = static_cast<DType>(dtype);
  r.op = static_cast<ReduceOp>(op);
  r.set = frame.number<int32_t>();
  r.root = frame.number<int32_t>();
  r.device = frame.number<int32_t>();
  r.prescale = frame.number<double>();
  r.postscale = frame.number<double>();
  r.shape = frame.numbers();
  r.splits = frame.numbers();
  r.same_shapes = frame.number<uint8_t>() != 0;
  r.group = frame.text();
  r.group_size = frame.number<int32_t>();
  r.failure = frame.text();
  r.later = frame.number<int32_t>();
  return r;
}

}  // namespace mxlite::jobs
