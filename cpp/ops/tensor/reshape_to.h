#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct ReshapeToParams {
  Shape shape;
  MX_FIELDS(ReshapeToParams, MX_REQUIRED_FIELD(shape, "The new shape."))
};

}  // namespace mxlite
