// Checks of a call before its shape rule runs.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite {

// Throws a type error if a call with these parameters does not take exactly `num_inputs` arrays.
void check_input_count(const OpSchema& op, const void* params, size_t num_inputs);

}  // namespace mxlite
