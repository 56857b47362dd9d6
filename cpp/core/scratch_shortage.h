// Thrown by Stream::scratch of a stream that records, which cannot enlarge its memory. The same
// work on a stream that does not record enlarges it.
#pragma once
#include <string>
#include <utility>

#include "cpp/base/error.h"

namespace mxlite {

class ScratchShortage final : public Error {
 public:
  explicit ScratchShortage(std::string message) : Error(ErrorKind::kDevice, std::move(message)) {}
};

}  // namespace mxlite
