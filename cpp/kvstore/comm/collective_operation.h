// Describes a collective call, so that ranks can check that they make the same call.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpp/core/dtype.h"

namespace mxlite {

enum class CollectiveCall : uint8_t {
  kNone,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kBarrier
};
const char* collective_call_name(CollectiveCall call);  // returns "unknown" for other numbers

// Properties of a call that must be equal on all ranks.
struct CollectiveOperation {
  CollectiveCall call = CollectiveCall::kNone;
  DType dtype = DType::kUInt8;
  uint8_t detail = 0;  // reduce op, or the low bits of the root
  uint64_t bytes = 0;  // total bytes, or a hash of the sizes per rank
};

// Packs the properties into 64 bits, including 52 bits of a hash of the sizes.
uint64_t signature_of(const CollectiveOperation& operation);
// Returns a text such as "all_reduce (sum, 8 bytes of float32)" for the signature of a call.
std::string signature_text(uint64_t signature);

// Hashes the sizes of the parts of a call. If the parts may differ, CollectiveOperation::bytes
// holds the result.
uint64_t hash_sizes(std::span<const size_t> sizes);
// Returns the offset of each part in memory in which parts of these sizes are adjacent.
std::vector<size_t> offsets_of(std::span<const size_t> bytes);

}  // namespace mxlite
