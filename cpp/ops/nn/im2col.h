// im2col: (batch, channels, ...) to (batch, channels * kernel size, windows). col2im is its
// transpose and sums overlapping windows. Each operator is the gradient of the other.
#pragma once
#include "cpp/ops/nn/spatial.h"

namespace mxlite {

struct Im2colParams {
  Shape kernel, stride, dilate, pad;
  static constexpr auto fields() { return window_fields<Im2colParams>(); }
  SpatialWindow window() const { return make_window(kernel, stride, dilate, pad); }
};

struct Col2imParams : Im2colParams {
  Shape output_size;
  MX_FIELDS(Col2imParams,
            MX_REQUIRED_FIELD(output_size, "Spatial size of the output.").between(1, kMaxSize),
            Im2colParams::fields())
};

// Returns the number of windows along each axis for an array of spatial size `size`.
Shape im2col_counts(const char* op, const Im2colParams& p, std::span<const int64_t> size);

}  // namespace mxlite
