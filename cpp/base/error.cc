#include "cpp/base/error.h"

namespace mxlite {

void internal_error(const char* condition, const char* file, int line) {
  fail(ErrorKind::kError, "internal error, please report: ", condition, " does not hold at ", file,
       ":", line);
}

}  // namespace mxlite
