#include "cpp/ops/dispatch_line.h"

#include <cstdio>

#include "cpp/base/env.h"

namespace mxlite {

void print_dispatch(const std::string& op, const char* kernel, const char* reason) {
  static const bool wanted = env_string("MXLITE_VERBOSE", "").find("dispatch") != std::string::npos;
  if (wanted)
    std::fprintf(stderr, "mxlite dispatch: %s -> %s: %s\n", op.c_str(), kernel,
                 reason ? reason : "chosen");
}

}  // namespace mxlite
