// im2col: (batch, channels, ...) to (batch, channels * kernel size, windows). col2im is its
// transpose: windows are added up where they overlap. Each is the other's gradient.
#pragma once
#include <tuple>

#include "cpp/ops/nn/spatial.h"

namespace mxlite {

struct Im2colParams {
  Shape kernel, stride, dilate, pad;
  static constexpr auto fields() {
    using P = Im2colParams;
    return std::tuple(
        required_field("kernel", &P::kernel, "Size of the window.").between(1, kMaxSize),
        field("stride", &P::stride, "Step of the window; 1 where empty.").between(1, kMaxSize),
        field("dilate", &P::dilate, "Distance between its elements; 1 where empty.")
            .between(1, kMaxSize),
        field("pad", &P::pad, "Zeros added on both sides; 0 where empty.").between(0, kMaxSize));
  }
  SpatialWindow window() const { return make_window(kernel, stride, dilate, pad); }
};

struct Col2imParams : Im2colParams {
  Shape output_size;
  static constexpr auto fields() {
    return std::tuple_cat(std::tuple(required_field("output_size", &Col2imParams::output_size,
                                                    "Spatial size of the output.")
                                         .between(1, kMaxSize)),
                          Im2colParams::fields());
  }
};

// Number of windows over an array of that spatial size.
Shape im2col_counts(const char* op, const Im2colParams& p, std::span<const int64_t> size);

}  // namespace mxlite
