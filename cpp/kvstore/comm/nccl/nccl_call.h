// Checks NCCL calls, and converts dtypes and operations to NCCL's.
#pragma once
#include <nccl.h>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite::nccl {

[[noreturn]] void throw_nccl_error(ncclResult_t status, const char* call);

inline void check(ncclResult_t status, const char* call) {
  if (status != ncclSuccess) throw_nccl_error(status, call);
}
#define MX_NCCL(call) ::mxlite::nccl::check((call), #call)

// Throws for 16-bit integers, which NCCL lacks.
ncclDataType_t data_type(DType dtype);
// Booleans are bytes of 0 and 1: "or" is their maximum, "and" their minimum.
ncclRedOp_t operation(ReduceOp op, DType dtype);

}  // namespace mxlite::nccl
