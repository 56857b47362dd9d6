// The error of a task. Tasks that use its value share it, so waits throw the first cause.
#pragma once
#include <cstdint>
#include <exception>
#include <string>

#include "cpp/base/intrusive_ptr.h"

namespace mxlite::engine {

class Task;

struct Failure final : RefCounted {
  Failure(std::exception_ptr e, uint64_t s) : error(std::move(e)), sequence(s) {}
  const std::exception_ptr error;  // always a mxlite::Error
  const uint64_t sequence;         // number of the failed task; the lowest one is reported
  bool seen = false;               // raised by a wait; guarded by the scheduler's mutex
};
using FailureRef = IntrusivePtr<Failure>;

// Returns "softmax((2, 3) float32), called at train.py:12".
std::string describe_with_origin(const Task& task);

// Call inside a catch block: returns the exception as mxlite::Error (bad_alloc as out of memory),
// with an added line that describes the task and the line of the call.
std::exception_ptr decorate_current_exception(const Task& task) noexcept;

}  // namespace mxlite::engine
