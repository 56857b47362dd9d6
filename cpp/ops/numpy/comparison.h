// Comparisons of arrays with numbers, exact also if the array's dtype does not hold the number.
#pragma once
#include "cpp/ops/cpu/pointwise/block_io.h"

namespace mxlite::pointwise {

struct ComparisonTypes {
  Compute compute;  // type in which both sides are compared
  DType scalar;     // dtype to which the number is rounded first
};

inline ComparisonTypes comparison_types(DType array, Number scalar) {
  const bool holds = is_floating(array) ||
                     (scalar.is_integer() && scalar.within(array).integer() == scalar.integer());
  if (holds && array != DType::kBool) return {compute_for_arithmetic(array), array};
  return {Compute::kDouble, DType::kFloat64};
}

}  // namespace mxlite::pointwise
