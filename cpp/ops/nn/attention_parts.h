// Memory positions of the matrices in interleaved attention products, for all devices. In a
// projection of shape (length, batch, heads, parts, d), the matrix of batch b, head h and part j
// begins at ((b * heads + h) * parts + j) * d; its rows are batch * heads * parts * d apart.
#pragma once
#include <cmath>

#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/attention.h"

namespace mxlite {

// One part of a projection, or the scores, as `count` = batch * heads matrices (length, d).
struct AttentionPart {
  void* data;
  DType dtype;
  // `stride` is the distance between matrices, `row` that between rows.
  int64_t length, count, d, stride, row;
};

inline AttentionPart part_of(const TensorRef& t, int64_t heads, int64_t parts, int64_t j) {
  const int64_t d = t.shape[2] / (heads * parts);
  return {static_cast<char*>(t.data) + j * d * static_cast<int64_t>(dtype_size(t.dtype)),
          t.dtype,
          t.shape[0],
          t.shape[1] * heads,
          d,
          parts * d,
          t.shape[1] * t.shape[2]};
}

inline AttentionPart scores_of(const TensorRef& t) {
  const int64_t size = t.shape[1] * t.shape[2];
  return {t.data, t.dtype, t.shape[1], t.shape[0], t.shape[2], size, t.shape[2]};
}

inline double query_scale(const AttentionPart& q) {
  return 1 / std::sqrt(static_cast<double>(q.d));
}

}  // namespace mxlite
