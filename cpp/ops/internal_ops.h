// Operators that programs and files cannot name.
#pragma once
#include <string_view>

#include "cpp/ops/op_schema.h"

namespace mxlite {

// Whether only gradient rules and graph passes may make calls of the operator: its kernels trust
// their inputs.
bool is_internal(const OpSchema& op);
// As ops().get, for names that a program or a file gives: internal operators are value errors.
const OpSchema& get_public_op(std::string_view name_or_alias);

}  // namespace mxlite
