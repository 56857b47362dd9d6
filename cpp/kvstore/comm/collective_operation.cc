#include "cpp/kvstore/comm/collective_operation.h"

#include <array>
#include <numeric>

#include "cpp/base/str.h"
#include "cpp/kvstore/comm/communicator.h"

namespace mxlite {

const char* collective_call_name(CollectiveCall call) {
  constexpr std::array kNames = {"nothing",   "all_reduce", "reduce_scatter", "all_gather",
                                 "broadcast", "all_to_all", "barrier"};
  const auto number = static_cast<size_t>(call);
  return number < kNames.size() ? kNames[number] : "unknown";
}

uint64_t signature_of(const CollectiveOperation& o) {
  return static_cast<uint64_t>(o.call) << 60 | static_cast<uint64_t>(o.dtype) << 56 |
         static_cast<uint64_t>(o.detail & 0xf) << 52 | (o.bytes & ((uint64_t{1} << 52) - 1));
}

std::string signature_text(uint64_t signature) {
  const auto call = static_cast<CollectiveCall>(signature >> 60);
  const auto dtype = static_cast<DType>(signature >> 56 & 0xf);
  const uint64_t bytes = signature & ((uint64_t{1} << 52) - 1);
  const char* name = collective_call_name(call);
  switch (call) {
    case CollectiveCall::kAllReduce:
      return str(name, " (", reduce_op_name(static_cast<ReduceOp>(signature >> 52 & 0x3)), ", ",
                 bytes, " bytes of ", dtype, ")");
    case CollectiveCall::kBroadcast:
      return str(name, " (", bytes, " bytes, root ", signature >> 52 & 0xf, ")");
    default:
      return name;
  }
}

uint64_t hash_sizes(std::span<const size_t> sizes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const size_t size : sizes) hash = (hash ^ size) * 0x100000001b3;
  return hash;
}

std::vector<size_t> offsets_of(std::span<const size_t> bytes) {
  std::vector<size_t> offsets(bytes.size());
  std::exclusive_scan(bytes.begin(), bytes.end(), offsets.begin(), size_t{0});
  return offsets;
}

}  // namespace mxlite
