// The only exception type of the core. The kind selects the Python class (python/mxlite/base.py).
#pragma once
#include <exception>
#include <string>
#include <utility>

#include "cpp/base/str.h"

namespace mxlite {

enum class ErrorKind {
  kError,  // MXNetError, if no other kind fits
  kShape,
  kDType,
  kIndex,
  kValue,
  kType,
  kDevice,
  kOutOfMemory,
  kRecord,
  kCommunicator,
  kNotSupported,
  kInterrupt,  // an interrupt (Ctrl-C) has ended user code; KeyboardInterrupt in Python
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  ErrorKind kind() const { return kind_; }
  const char* what() const noexcept override { return message_.c_str(); }

  // Appends an indented line such as "while running softmax (2, 3)".
  void add_context(const std::string& line) { message_ += "\n    " + line; }

 private:
  ErrorKind kind_;
  std::string message_;
};

[[noreturn]] void throw_error(ErrorKind kind, std::initializer_list<Printed> message);

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, const Args&... args) {
  throw_error(kind, {args...});
}

[[noreturn]] void internal_error(const char* condition, const char* file, int line);

}  // namespace mxlite

// Throws an error of the user if the condition is false. The text contains only the message. `kind`
// is a value of ErrorKind.
#define MX_CHECK_KIND(condition, kind, ...)         \
  do {                                              \
    if (!(condition)) [[unlikely]]                  \
      ::mxlite::throw_error((kind), {__VA_ARGS__}); \
  } while (0)
#define MX_CHECK(condition, ...) MX_CHECK_KIND(condition, ::mxlite::ErrorKind::kValue, __VA_ARGS__)
#define MX_CHECK_SHAPE(condition, ...) \
  MX_CHECK_KIND(condition, ::mxlite::ErrorKind::kShape, __VA_ARGS__)
#define MX_CHECK_DTYPE(condition, ...) \
  MX_CHECK_KIND(condition, ::mxlite::ErrorKind::kDType, __VA_ARGS__)
// Throws an error that reports a bug in mxlite if the condition is false.
#define MX_ASSERT(condition)                                    \
  do {                                                          \
    if (!(condition)) [[unlikely]]                              \
      ::mxlite::internal_error(#condition, __FILE__, __LINE__); \
  } while (0)
