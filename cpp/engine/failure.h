// The error of a task. Tasks that use a value of the task share the failure, so waits throw the
// first error.
#pragma once
#include <cstdint>
#include <exception>
#include <string>

#include "cpp/base/intrusive_ptr.h"

namespace mxlite::engine {

class Task;

struct Failure final : RefCounted {
  Failure(std::exception_ptr e, uint64_t s) : error(std::move(e)), sequence(s) {}
  const std::exception_ptr error;  // always an mxlite::Error
  const uint64_t sequence;         // number of the failed task; the failure with the lowest number
                                   // is reported
  bool seen = false;               // whether a wait has thrown it; guarded by the scheduler's mutex
};
using FailureRef = IntrusivePtr<Failure>;

// Returns "softmax((2, 3) float32), called at train.py:12".
std::string describe_with_origin(const Task& task);

// Returns the current exception as mxlite::Error (bad_alloc becomes an out-of-memory error) with an
// added line that describes the task and the line of the call. Call inside a catch block.
std::exception_ptr decorate_current_exception(const Task& task) noexcept;

}  // namespace mxlite::engine
