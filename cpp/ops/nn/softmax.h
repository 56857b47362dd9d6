// softmax, log_softmax and softmin along one axis. With use_length only the first `length` entries
// take part; the others are 0. length has data's shape without the axis.
#pragma once
#include <optional>
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

// Also of the backward operators (output_grad, output[, length]).
struct SoftmaxParams {
  int axis = -1;
  std::optional<double> temperature;
  std::optional<DType> dtype;
  bool use_length = false;

  static constexpr auto fields() {
    using P = SoftmaxParams;
    return std::tuple(field("axis", &P::axis, "Axis that is normalized."),
                      field("temperature", &P::temperature, "Divisor of data; None is 1."),
                      field("dtype", &P::dtype, "Output's dtype; None keeps data's."),
                      field("use_length", &P::use_length, "Take the input length."));
  }
};

struct SoftmaxGradParams : SoftmaxParams {
  DType data_dtype = DType::kFloat32;
  static constexpr auto fields() {
    return std::tuple_cat(
        SoftmaxParams::fields(),
        std::tuple(field("data_dtype", &SoftmaxGradParams::data_dtype, "dtype of the gradient.")));
  }
};

}  // namespace mxlite
