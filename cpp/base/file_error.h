// Errors while reading files.
#pragma once
#include <string>
#include <utility>

#include "cpp/base/error.h"

namespace mxlite {

// The error for a file whose content violates its format. The Python class is FileFormatError.
class FileError : public Error {
 public:
  explicit FileError(std::string message) : Error(ErrorKind::kValue, std::move(message)) {}
};

// The error for a file that the system cannot read. The Python class is FileAccessError.
class FileReadError : public Error {
 public:
  explicit FileReadError(std::string message) : Error(ErrorKind::kRecord, std::move(message)) {}
};

}  // namespace mxlite
