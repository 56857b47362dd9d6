// Writes to operands of recorded calls.
#pragma once
#include <string>

#include "cpp/autograd/tape.h"

// Note [Overwritten values]
// As in MXNet 1.x a recorded call keeps its operands themselves. If a program writes to one of them
// before backward, backward computes with the new value. The first time that backward meets the
// write of a line of the program it warns with that line; while detect_anomaly is on it throws.
namespace mxlite::autograd {

// Shows a warning for a line of the program, and may throw. line: its file is null if unknown.
using Warn = void (*)(const std::string& text, engine::Origin line);
// Must be called once, before the first backward; without it there are no warnings.
void set_write_warning(Warn warn);

// Warns that a value was overwritten after it was recorded, or throws.
// what: the value, such as "lhs of elemwise_mul"; version: the current one of its memory.
void report_overwritten(const std::string& what, const Shape& shape, uint64_t version);

// Reports the array if it was written after `recorded` was its version. describe() returns `what`.
template <class Describe>
void check_version(const NDArray& a, uint64_t recorded, Describe&& describe) {
  const uint64_t now = version_of(a);
  if (now != recorded) [[unlikely]]
    report_overwritten(describe(), a.shape(), now);
}

}  // namespace mxlite::autograd
