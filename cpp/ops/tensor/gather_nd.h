// Indexing by coordinates. indices has shape (M, ...): row m has coordinates along axis m of data.
#pragma once
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct ScatterNdParams {
  Shape shape;
  static constexpr auto fields() {
    return std::tuple(
        required_field("shape", &ScatterNdParams::shape, "Shape of the output.").at_least(0));
  }
};

}  // namespace mxlite
