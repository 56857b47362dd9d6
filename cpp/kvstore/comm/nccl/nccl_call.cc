#include "cpp/kvstore/comm/nccl/nccl_call.h"

#include "cpp/base/error.h"

namespace mxlite::nccl {

void throw_nccl_error(ncclResult_t status, const char* call) {
  // NCCL's last error says more than the code, for example which system call failed or which peer
  // was lost.
  const char* more = ncclGetLastError(nullptr);
  fail(ErrorKind::kCommunicator, call, " failed: ", ncclGetErrorString(status),
       more && *more ? str(" (", more, ")") : std::string());
}

ncclDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kInt8:
      return ncclInt8;
    case DType::kUInt8:
    case DType::kBool:
      return ncclUint8;
    case DType::kInt32:
      return ncclInt32;
    case DType::kUInt32:
      return ncclUint32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUInt64:
      return ncclUint64;
    default:
      fail(ErrorKind::kNotSupported, "nccl: dtype must not be a 16-bit integer, got ",
           dtype_name(dtype), "; convert the array with astype");
  }
}

ncclRedOp_t operation(ReduceOp op, DType dtype) {
  const bool boolean = dtype == DType::kBool;
  switch (op) {
    case ReduceOp::kSum:
      return boolean ? ncclMax : ncclSum;
    case ReduceOp::kProduct:
      return boolean ? ncclMin : ncclProd;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      break;
  }
  return ncclMax;
}

}  // namespace mxlite::nccl
