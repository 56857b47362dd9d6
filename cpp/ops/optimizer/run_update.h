// A weight update on raw memory, in the calling thread: for servers, which have no engine. Throws a
// not-supported error for an operator that does not update one weight.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cpp/ops/kernel.h"

namespace mxlite::optimizer {

using NamedNumber = std::pair<std::string, double>;

// Runs the CPU kernel of "sgd_update" and the like on contiguous tensors; states among the inputs
// are changed.
void run_update(const std::string& op, std::span<const NamedNumber> params, Inputs inputs,
                const TensorRef& output);

struct UpdateForm {
  int states = 0;               // how many arrays the operator keeps for a weight
  bool scale_is_input = false;  // the factor on the gradient is the last input
  std::vector<std::string> params;
};
UpdateForm form_of_update(const std::string& op);

}  // namespace mxlite::optimizer
