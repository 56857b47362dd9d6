// What a rank asks for when it calls a named collective, and how that travels to the other ranks.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpp/base/intrusive_ptr.h"
#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/frame_bytes.h"

namespace mxlite::horovod {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kReduceScatter,
  kBarrier,
  kAddSet,
  kRemoveSet,
};
inline constexpr size_t kNumCollectiveKinds = 8;
const char* collective_name(CollectiveKind kind);  // "allreduce"

// All ranks of the set ask with the same name. What must be equal among them: validate().
struct Request {
  std::string name;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int32_t set = 0;
  int32_t root = 0;     // rank of the job
  int32_t device = -1;  // number of the GPU, -1: host memory
  double prescale = 1, postscale = 1;
  std::vector<int64_t> shape;
  std::vector<int64_t> splits;  // all_to_all: rows for each rank; add_set: its ranks
  std::string group;            // tensors that start together or not at all
  int32_t group_size = 0;
  std::string failure;   // the input could not be computed
  int32_t priority = 0;  // of this rank; not sent

  int64_t elements() const;
  size_t bytes() const { return static_cast<size_t>(elements()) * dtype_size(dtype); }
  // Everything but name and priority.
  bool same_terms(const Request& other) const;
  // Set and name, which tell operations apart. Made by the first call.
  const std::string& key() const;

 private:
  mutable std::string key_;
};

inline constexpr uint32_t kNoNumber = UINT32_MAX;

// A request that does not change any more, and that threads share. Calls with the same name and
// terms share one (RequestTable): what is known about it is found without reading the name.
struct SharedRequest : RefCounted {
  explicit SharedRequest(Request request);

  // Hint of the negotiating thread where its cache has the name. It lies in a cache line of its
  // own, because other threads write the reference count.
  alignas(64) mutable uint32_t number = kNoNumber;
  const Request terms;
  const size_t bytes;
};
using RequestRef = IntrusivePtr<const SharedRequest>;

// Names the frames of a negotiation in errors.
inline constexpr const char* kNegotiationFrame = "a frame of the negotiation";

std::string shape_text(std::span<const int64_t> shape);

// Hash of what all ranks must agree on when they make the same call; the rows of an allgather and a
// failure may differ.
uint64_t call_hash(const Request& request);

// Appends a request to a frame.
void write_request(FrameWriter& frame, const Request& request);
// Throws a communicator error for bytes that are no request.
Request read_request(FrameReader& frame);

}  // namespace mxlite::horovod
