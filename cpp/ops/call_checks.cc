#include "cpp/ops/call_checks.h"

namespace mxlite {

void check_input_count(const OpSchema& op, const void* params, size_t num_inputs) {
  if (op.variadic) {
    MX_CHECK_KIND(num_inputs > 0, ErrorKind::kType, op.name, "() needs at least one array");
    return;
  }
  const size_t wanted =
      op.input_count ? static_cast<size_t>(op.input_count(params)) : op.inputs.size();
  if (num_inputs == wanted) [[likely]]
    return;
  std::string names;
  for (size_t i = 0; i < wanted; ++i)
    names += str(i ? ", " : "", op.input_name(static_cast<int>(i)));
  fail(ErrorKind::kType, op.name, ": the number of inputs must be ", wanted, wanted ? " (" : "",
       names, wanted ? ")" : "", ", got ", num_inputs);
}

}  // namespace mxlite
