// Thrown by Stream::scratch of a recording stream, which cannot enlarge its scratch memory. If the
// same work runs on a stream that does not record, the scratch memory grows.
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
