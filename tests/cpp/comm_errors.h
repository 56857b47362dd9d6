// Texts of communicator errors, for tests.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "cpp/base/error.h"

namespace mxlite {

template <class Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCommunicator);
    return error.what();
  }
  return "no error";
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

}  // namespace mxlite
