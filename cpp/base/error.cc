#include "cpp/base/error.h"

#include "cpp/base/checked_math.h"

namespace mxlite {

void throw_error(ErrorKind kind, std::initializer_list<Printed> message) {
  throw Error(kind, concatenate(message));
}

void internal_error(const char* condition, const char* file, int line) {
  fail(ErrorKind::kError, "internal error, please report: ", condition, " does not hold at ", file,
       ":", line);
}

void throw_overflow(const char* operation, int64_t a, int64_t b) {
  fail(ErrorKind::kShape, "size overflows 64 bits: ", a, operation, b);
}

}  // namespace mxlite
