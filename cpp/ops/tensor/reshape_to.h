#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct ReshapeToParams {
  Shape shape;
  static constexpr auto fields() {
    return std::tuple(required_field("shape", &ReshapeToParams::shape, "The new shape."));
  }
};

}  // namespace mxlite
