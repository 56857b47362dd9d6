// Dot-product attention on interleaved projections (attention.h) without copying their parts. The
// pass fuse-attention replaces interleaved products by these operators. The output is (q_length,
// batch, heads * d); hidden outputs and optional inputs are as in dot_product_attention.h.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/dot_product_attention.h"

namespace mxlite {

// Also the params of the backward operators (output_grad, projections..., output, log_sum,
// random_state[, attention_mask][, length]), where dropout is 0 unless forward was training.
struct InterleavedAttentionParams : AttentionParams {
  int64_t heads = 1;
  MX_FIELDS(InterleavedAttentionParams, AttentionParams::fields(),
            MX_FIELD(heads, "Number of heads.").between(1, kMaxSize))
};

// Returns part `index` of a contiguous projection (length, batch, heads * parts * d) as an array
// (batch, heads, length, d).
inline TensorRef view_of_part(const TensorRef& projection, int64_t heads, int64_t parts,
                              int64_t index) {
  const Shape& s = projection.shape;
  const int64_t d = s[2] / (heads * parts);
  char* const data = static_cast<char*>(projection.data) +
                     index * d * static_cast<int64_t>(dtype_size(projection.dtype));
  return {data, Shape{s[1], heads, s[0], d}, Strides{s[2], parts * d, s[1] * s[2], 1},
          projection.dtype, false};
}

}  // namespace mxlite
