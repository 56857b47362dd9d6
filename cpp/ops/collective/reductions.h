// Shared by the rules of collective operators.
#pragma once
#include <string>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/ops/collective/params.h"

namespace mxlite::collective {

inline const char* reduction_name(Reduction reduction) {
  for (const auto& [name, value] : EnumNames<Reduction>::names)
    if (value == reduction) return name;
  return "";
}

inline void check_mean(const char* op, Reduction reduction, DType dtype) {
  MX_CHECK_DTYPE(reduction != Reduction::kMean || is_floating(dtype), op,
                 ": data must be of a floating dtype with op 'mean', got ", dtype,
                 "; use op='sum' or cast the data");
}

inline void check_differentiable(const char* op, Reduction reduction) {
  MX_CHECK_KIND(reduction == Reduction::kSum || reduction == Reduction::kMean,
                ErrorKind::kNotSupported, op, ": op '", reduction_name(reduction),
                "' is not differentiable; use 'sum' or 'mean', or stop the gradient with "
                "BlockGrad");
}

inline std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (const int r : ranks) text += str(text.empty() ? "" : ", ", r);
  return text;
}

}  // namespace mxlite::collective
