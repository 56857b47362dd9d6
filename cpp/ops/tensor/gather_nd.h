// Indexing by coordinates. indices has shape (M, ...): one row of coordinates per leading axis.
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
