#include "cpp/engine/failure.h"

#include <new>
#include <string>

#include "cpp/base/error.h"
#include "cpp/engine/task.h"

namespace mxlite::engine {
namespace {

Error as_error(const Task& task) {
  try {
    throw;
  } catch (const Error& e) {
    return e;  // a copy, because other threads may read the exception object
  } catch (const std::bad_alloc&) {
    return {ErrorKind::kOutOfMemory, str(task.name, ": out of memory")};
  } catch (const std::exception& e) {
    return {ErrorKind::kError, str(task.name, ": ", e.what())};
  } catch (...) {
    return {ErrorKind::kError, str(task.name, ": unknown exception")};
  }
}

}  // namespace

std::string describe_with_origin(const Task& task) {
  std::string line;
  task.describe(line);
  if (task.origin.file)
    line += std::string(", called at ") + task.origin.file + ":" + std::to_string(task.origin.line);
  return line;
}

std::exception_ptr decorate_current_exception(const Task& task) noexcept {
  try {
    Error error = as_error(task);
    error.add_context("while running " + describe_with_origin(task));
    return std::make_exception_ptr(std::move(error));
  } catch (...) {
    return std::current_exception();  // not enough memory for the text, so the exception is
                                      // returned unchanged
  }
}

}  // namespace mxlite::engine
