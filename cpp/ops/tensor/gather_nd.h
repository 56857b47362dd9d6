// Indexing by coordinates. indices has shape (M, ...): row m has coordinates along axis m of data.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct ScatterNdParams {
  Shape shape;
  MX_FIELDS(ScatterNdParams, MX_REQUIRED_FIELD(shape, "Shape of the output.").at_least(0))
};

}  // namespace mxlite
