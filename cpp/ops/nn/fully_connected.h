// FullyConnected: data @ weight.T + bias with weight (num_hidden, inputs).
#pragma once
#include "cpp/ops/attr.h"
#include "cpp/ops/dimensions.h"

namespace mxlite {

struct FullyConnectedParams {
  int64_t num_hidden = 0;
  bool no_bias = false;
  bool flatten = true;
  MX_FIELDS(
      FullyConnectedParams,
      MX_REQUIRED_FIELD(num_hidden, "Size of the output's last dimension.").between(1, kMaxSize),
      MX_FIELD(no_bias, "Whether to omit the input bias."),
      MX_FIELD(flatten,
               "Whether to join all axes of data except the first; False applies the layer along "
               "the last axis."))
};

// Sizes of data viewed as a matrix (rows, columns); the output is (rows, num_hidden).
struct RowsColumns {
  int64_t rows, columns;
};
inline RowsColumns fully_connected_rows(const FullyConnectedParams& p, const Shape& data) {
  const int split = p.flatten ? 1 : data.ndim() - 1;
  return {product_of_dims(data, 0, split), product_of_dims(data, split, data.ndim())};
}

}  // namespace mxlite
