// Runs a weight update on raw memory and on the calling thread, for servers, which have no engine.
// Throws a not-supported error if the operator does not update exactly one weight.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cpp/ops/kernel.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::optimizer {

using NamedNumber = std::pair<std::string, double>;

// Returns the parameters of an update operator.
ParamsRef params_of_update(const std::string& op, std::span<const NamedNumber> params);

// Runs the CPU kernel of an update operator ("sgd_update") on contiguous tensors. Changes the
// states, which are inputs, in place.
void run_update(const std::string& op, std::span<const NamedNumber> params, Inputs inputs,
                const TensorRef& output);

struct UpdateForm {
  int states = 0;               // number of state arrays per weight
  bool scale_is_input = false;  // whether the last input is the factor of the gradient
  std::vector<std::string> params;
};
UpdateForm form_of_update(const std::string& op);

}  // namespace mxlite::optimizer
