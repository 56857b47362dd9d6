// Helpers that return the texts of errors.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "cpp/base/error.h"

namespace mxlite {

// Returns the text of the error that the action throws, or "" if it throws none. If a kind is
// given, the error must be of that kind.
inline std::string error_of(const std::function<void()>& action,
                            std::optional<ErrorKind> kind = std::nullopt) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_TRUE(!kind || error.kind() == *kind) << error.what();
    return error.what();
  }
  return "";
}
inline std::string comm_error_of(const std::function<void()>& action) {
  return error_of(action, ErrorKind::kCommunicator);
}

inline testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' lacks '" << part << "'";
}
#define EXPECT_HAS(text, part) EXPECT_TRUE(::mxlite::has(text, part))

}  // namespace mxlite
