// Comparisons and logic of integers with NaN, which no integer type can represent.
#pragma once
#include <cmath>
#include <optional>

#include "cpp/ops/number.h"
#include "cpp/ops/pointwise/binary_functors.h"

namespace mxlite::pointwise {

struct LogicScalar {
  std::optional<bool> result;  // result for all elements, if it does not depend on the data
  Number scalar;
};

// Returns how a kernel of function F computes F(data, scalar) for data of a dtype.
template <class F>
LogicScalar logic_scalar(Number scalar, DType dtype) {
  if (is_floating(dtype) || !std::isnan(scalar)) return {{}, scalar};
  const double nan = scalar;
  const bool of_zero = F::apply(0.0, nan) != 0, of_one = F::apply(1.0, nan) != 0;
  if (of_zero == of_one) return {of_one, scalar};
  return {{}, 1};  // logic depends on which data are 0, and NaN counts as nonzero
}

}  // namespace mxlite::pointwise
