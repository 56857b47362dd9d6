// A rank's request to run a named collective, and the encoding in which other ranks receive it.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpp/base/intrusive_ptr.h"
#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/frame_bytes.h"

namespace mxlite::jobs {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kReduceScatter,
  kBarrier,
  kAddSet,
  kRemoveSet,
  kReduce,   // the root gets the sum, other ranks get zeros
  kMessage,  // one rank sends, another receives
};
inline constexpr size_t kNumCollectiveKinds = 10;
const char* collective_name(CollectiveKind kind);  // "allreduce"
std::string activity_name(CollectiveKind kind);    // "ALLREDUCE"

// Value of Request::later after this rank has given up a run of a graph.
inline constexpr int32_t kGivenUp = -1;

// All ranks of the set use the same name. mismatch() checks that their other terms are compatible.
struct Request {
  std::string name;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int32_t set = 0;
  int32_t root = 0;     // rank number in the job
  int32_t device = -1;  // GPU number if NCCL transfers the array, else -1
  double prescale = 1, postscale = 1;
  std::vector<int64_t> shape;
  // The meaning depends on the kind: rows for each rank (all_to_all), ranks of the set (add_set),
  // or source and destination (message).
  std::vector<int64_t> splits;
  // True for collective operators. In this case, the request's name contains the parameters, all
  // ranks have the same shape, the caller provides the output, and the blocks of the ranks lie one
  // after another.
  bool same_shapes = false;
  std::string group;  // tensors with the same group name start together or all fail
  int32_t group_size = 0;
  std::string failure;  // if not empty, the reason why this rank cannot take part
  // Number of calls that this run of a graph makes in the same channel after this call. The value
  // is kGivenUp if this rank has failed and makes none of these calls. May differ among ranks.
  int32_t later = 0;
  int32_t priority = 0;  // valid for this rank only; not sent

  int64_t elements() const;
  size_t bytes() const { return static_cast<size_t>(elements()) * dtype_size(dtype); }
  // Compares all fields except name and priority.
  bool same_terms(const Request& other) const;
  // Returns a text of process set and name that identifies the operation. The first call computes
  // the text.
  const std::string& key() const;

 private:
  mutable std::string key_;
};

inline constexpr uint32_t kNoNumber = UINT32_MAX;

// An immutable request that threads share. Calls with the same name and terms share one object
// (RequestTable). Data cached in the object is therefore found without comparing names.
struct SharedRequest : RefCounted {
  explicit SharedRequest(Request request);

  // Position of the name in the negotiator's cache of names, written by the comm thread. The member
  // occupies a separate cache line of the processor, because other threads write the reference
  // count.
  alignas(64) mutable uint32_t number = kNoNumber;
  const Request terms;
  const size_t bytes;
  // Returns call_hash(terms). The first call computes the hash.
  uint64_t hash() const;

 private:
  mutable std::atomic<uint64_t> hash_{0};
};
using RequestRef = IntrusivePtr<const SharedRequest>;

// Name of the frames of a negotiation in error texts.
inline constexpr const char* kNegotiationFrame = "a frame of the negotiation";

std::string shape_text(std::span<const int64_t> shape);

// Returns a hash of the terms that must be equal on all ranks. It omits rows of an allgather, GPU
// numbers and failures, because these may differ.
uint64_t call_hash(const Request& request);

// Appends a request to a frame.
void write_request(FrameWriter& frame, const Request& request);
// Reads a request from a frame. Throws a communicator error if the bytes are not a request.
Request read_request(FrameReader& frame);

// Compares the requests of all ranks for one operation. requests[i] is from rank members[i].
// Returns "" if they are compatible, otherwise an error text with the ranks, the tensor and both
// values.
std::string mismatch(std::span<const Request> requests, std::span<const int> members);

}  // namespace mxlite::jobs
