// Embedding: rows of weight (input_dim, output_dim), selected by the indices in data. As in MXNet
// 1.x, indices are truncated to integers and clipped to [0, input_dim).
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

// Also the params of `_embedding_backward(output_grad, data)` -> gradient of weight.
struct EmbeddingParams {
  int64_t input_dim = 0, output_dim = 0;
  DType dtype = DType::kFloat32;
  bool sparse_grad = false;
  MX_FIELDS(EmbeddingParams,
            MX_REQUIRED_FIELD(input_dim, "Number of rows of the table.").at_least(1),
            MX_REQUIRED_FIELD(output_dim, "Length of a row.").at_least(1),
            MX_FIELD(dtype, "dtype of a weight that is created for this layer."),
            MX_FIELD(sparse_grad, "Give the gradient of weight as single rows."))
};

}  // namespace mxlite
