#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct CastParams {
  DType dtype = DType::kFloat32;
  MX_FIELDS(CastParams, MX_REQUIRED_FIELD(dtype, "Element type of the result."))
};

struct AmpMulticastParams {
  int num_outputs = 0;
  bool cast_narrow = false;
  MX_FIELDS(
      AmpMulticastParams, MX_REQUIRED_FIELD(num_outputs, "Number of arrays.").at_least(1),
      MX_FIELD(
          cast_narrow,
          "Whether to convert to the narrowest float type among the inputs instead of the widest."))
};

}  // namespace mxlite
