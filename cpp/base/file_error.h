// Errors while reading files.
#pragma once
#include <string>
#include <utility>

#include "cpp/base/error.h"

namespace mxlite {

// The content of a file violates its format; FileFormatError in Python.
class FileError : public Error {
 public:
  explicit FileError(std::string message) : Error(ErrorKind::kValue, std::move(message)) {}
};

// The system cannot read a file; FileAccessError in Python.
class FileReadError : public Error {
 public:
  explicit FileReadError(std::string message) : Error(ErrorKind::kRecord, std::move(message)) {}
};

}  // namespace mxlite
