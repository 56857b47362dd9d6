// Checks NCCL calls. Converts dtypes and operations to those of NCCL.
#pragma once
#include <nccl.h>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite::nccl {

[[noreturn]] void throw_nccl_error(ncclResult_t status, const char* call);

inline void check(ncclResult_t status, const char* call) {
  if (status != ncclSuccess) throw_nccl_error(status, call);
}
#define MX_NCCL(call) ::mxlite::nccl::check((call), #call)

// Throws for 16-bit integers, because NCCL lacks these types.
ncclDataType_t data_type(DType dtype);
// Booleans are bytes of 0 and 1. Therefore "or" is their maximum and "and" is their minimum.
ncclRedOp_t operation(ReduceOp op, DType dtype);

}  // namespace mxlite::nccl
