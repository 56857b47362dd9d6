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
  MX_FIELDS(EmbeddingParams, MX_REQUIRED_FIELD(input_dim, "Number of rows of weight.").at_least(1),
            MX_REQUIRED_FIELD(output_dim, "Length of each row of weight.").at_least(1),
            MX_FIELD(dtype, "dtype of weight if a symbol's type inference has to choose it."),
            MX_FIELD(sparse_grad, "Whether the gradient of weight is a row-sparse array."))
};

}  // namespace mxlite
