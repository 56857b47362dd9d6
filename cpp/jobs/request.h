// A rank's request to run a named collective, and its encoding for the other ranks.
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
  kReduce,   // the sum for the root, zeros for the other ranks
  kMessage,  // from one rank to another
};
inline constexpr size_t kNumCollectiveKinds = 10;
const char* collective_name(CollectiveKind kind);  // "allreduce"
std::string activity_name(CollectiveKind kind);    // "ALLREDUCE"

// Value of Request::later if this rank has given up the run of a graph.
inline constexpr int32_t kGivenUp = -1;

// All ranks of the set use the same name. validate() checks what must be equal among them.
struct Request {
  std::string name;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int32_t set = 0;
  int32_t root = 0;     // rank in the job
  int32_t device = -1;  // number of the GPU if the array travels through NCCL, else -1
  double prescale = 1, postscale = 1;
  std::vector<int64_t> shape;
  // all_to_all: rows for each rank; add_set: its ranks; message: source and destination
  std::vector<int64_t> splits;
  // Set for a call of a collective operator, whose name contains its parameters: all ranks have the
  // same shape, the caller provides the output, and the blocks of the ranks lie one after another.
  bool same_shapes = false;
  std::string group;  // name of a group of tensors that start together or not at all
  int32_t group_size = 0;
  std::string failure;  // not empty: this rank cannot take part, for this reason
  // Number of calls that this run of a graph makes in the same channel after this one. kGivenUp:
  // this rank has failed and makes none of them. Ranks may have different values.
  int32_t later = 0;
  int32_t priority = 0;  // for this rank only; not sent

  int64_t elements() const;
  size_t bytes() const { return static_cast<size_t>(elements()) * dtype_size(dtype); }
  // Compares everything but name and priority.
  bool same_terms(const Request& other) const;
  // Returns a text of set and name that identifies the operation. The first call computes it.
  const std::string& key() const;

 private:
  mutable std::string key_;
};

inline constexpr uint32_t kNoNumber = UINT32_MAX;

// An immutable request that threads share. Calls with the same name and terms share one object
// (RequestTable), so data cached in it is found without comparing names.
struct SharedRequest : RefCounted {
  explicit SharedRequest(Request request);

  // The negotiating thread's hint: the position of the name in its cache. Has a cache line of its
  // own, because other threads write the reference count.
  alignas(64) mutable uint32_t number = kNoNumber;
  const Request terms;
  const size_t bytes;
  // Returns call_hash(terms). Computed by the first call.
  uint64_t hash() const;

 private:
  mutable std::atomic<uint64_t> hash_{0};
};
using RequestRef = IntrusivePtr<const SharedRequest>;

// Name of a negotiation's frames in error texts.
inline constexpr const char* kNegotiationFrame = "a frame of the negotiation";

std::string shape_text(std::span<const int64_t> shape);

// Returns a hash of the terms on which all ranks must agree for one call; the rows of an allgather,
// the number of the GPU and a failure may differ.
uint64_t call_hash(const Request& request);

// Appends a request to a frame.
void write_request(FrameWriter& frame, const Request& request);
// Throws a communicator error if the bytes are not a request.
Request read_request(FrameReader& frame);

// Compares the requests of all ranks for one operation; requests[i] is from rank members[i].
// Returns "" if they fit together, else an error text with the ranks, the tensor and both values.
std::string mismatch(std::span<const Request> requests, std::span<const int> members);

}  // namespace mxlite::jobs
