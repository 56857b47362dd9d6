#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct CastParams {
  DType dtype = DType::kFloat32;
  static constexpr auto fields() {
    return std::tuple(required_field("dtype", &CastParams::dtype, "Element type of the result."));
  }
};

struct AmpMulticastParams {
  int num_outputs = 0;
  bool cast_narrow = false;
  static constexpr auto fields() {
    return std::tuple(
        required_field("num_outputs", &AmpMulticastParams::num_outputs, "How many arrays.")
            .at_least(1),
        field("cast_narrow", &AmpMulticastParams::cast_narrow,
              "Convert to the narrowest floating type among the inputs instead of the widest."));
  }
};

}  // namespace mxlite
