// one_hot and the conversions between flat indices and coordinates.
#pragma once
#include <tuple>

#include "cpp/ops/number.h"

namespace mxlite {

struct OneHotParams {
  int64_t depth = 0;
  Number on_value = 1, off_value = 0;
  DType dtype = DType::kFloat32;
  static constexpr auto fields() {
    return std::tuple(
        required_field("depth", &OneHotParams::depth, "Length of the new last axis.").at_least(0),
        field("on_value", &OneHotParams::on_value, "Value at the index."),
        field("off_value", &OneHotParams::off_value, "Value everywhere else."),
        field("dtype", &OneHotParams::dtype, "Type of the output."));
  }
};

struct RavelParams {
  Shape shape;
  static constexpr auto fields() {
    return std::tuple(required_field("shape", &RavelParams::shape,
                                     "Shape of the array that is indexed; the first dimension may "
                                     "be -1.")
                          .at_least(-1));
  }
};

}  // namespace mxlite
