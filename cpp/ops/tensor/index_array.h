// nd.contrib's index_array and index_copy.
#pragma once
#include <optional>
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct IndexArrayParams {
  std::optional<Shape> axes;
  static constexpr auto fields() {
    return std::tuple(
        field("axes", &IndexArrayParams::axes, "Axes whose index is written; None: all of them."));
  }
};

}  // namespace mxlite
