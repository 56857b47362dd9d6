// Reports writes to operands of recorded calls.
#pragma once
#include <string>

#include "cpp/autograd/tape.h"

// Note [Overwritten values]
// A recorded call keeps references to its operands, not copies, as in MXNet 1.x. If a program
// writes to an operand before backward, backward computes with the new value. Backward then warns
// once for each line of the program that wrote to an operand. While detect_anomaly is on, backward
// throws instead.
namespace mxlite::autograd {

// Shows a warning for a line of the program. May throw. line.file is null if the line is unknown.
using Warn = void (*)(const std::string& text, engine::Origin line);
// Sets the function that shows warnings. Must be called once, before the first backward. Without
// this function, no warnings are shown.
void set_write_warning(Warn warn);

// Warns that a value was overwritten after it was recorded, or throws. `what` names the value, such
// as "lhs of elemwise_mul". `version` is the current version of the value's memory.
void report_overwritten(const std::string& what, const Shape& shape, uint64_t version);

// Reports the array if its version differs from `recorded`. describe() returns the text for `what`.
template <class Describe>
void check_version(const NDArray& a, uint64_t recorded, Describe&& describe) {
  const uint64_t now = version_of(a);
  if (now != recorded) [[unlikely]]
    report_overwritten(describe(), a.shape(), now);
}

}  // namespace mxlite::autograd
