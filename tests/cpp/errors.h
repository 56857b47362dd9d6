// Texts of errors, for tests.
#pragma once
#include <functional>
#include <string>

#include "cpp/base/error.h"

namespace mxlite {

// Returns the text of the error that the action throws, "" if it throws none.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace mxlite
