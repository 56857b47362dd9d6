// dot, batch_dot and _matmul: how operands are viewed as matrices.
#pragma once
#include <cstdint>
#include <optional>

#include "cpp/ndarray/sparse.h"
#include "cpp/ops/attr.h"

namespace mxlite {

MX_ENUM_NAMES(StorageType, {"default", E::kDefault}, {"row_sparse", E::kRowSparse},
              {"csr", E::kCSR})

struct DotParams {
  bool transpose_a = false, transpose_b = false;
  std::optional<StorageType> forward_stype;
  MX_FIELDS(
      DotParams, MX_FIELD(transpose_a, "Whether lhs is transposed first."),
      MX_FIELD(transpose_b, "Whether rhs is transposed first."),
      MX_FIELD(forward_stype,
               "Storage type of the result; None chooses it by the storage types of the inputs."))
};

// op(lhs) is m x k, op(rhs) is k x n; there are `batch` pairs.
struct MatrixSizes {
  int64_t batch = 1, m = 1, n = 1, k = 1, rhs_k = 1;
};
// For dot: all axes except the contracted one are joined.
MatrixSizes dot_sizes(const DotParams& p, const Shape& lhs, const Shape& rhs);
// For _np_dot with a right operand of more than two axes, whose leading axes are the batch: the
// result has rows of batch * n elements.
MatrixSizes numpy_dot_sizes(const Shape& lhs, const Shape& rhs);
// For batch_dot: the last two axes are the matrices, the other axes form the batch.
MatrixSizes batch_dot_sizes(const DotParams& p, const Shape& lhs, const Shape& rhs);

}  // namespace mxlite
