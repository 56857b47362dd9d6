#include "cpp/kvstore/comm/deadline.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cpp/base/env.h"
#include "cpp/base/error.h"

namespace mxlite {

double env_seconds(const char* name, double fallback) {
  const std::string text = env_string(name, "");
  if (text.empty()) return fallback;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  MX_CHECK(end == text.c_str() + text.size() && std::isfinite(value) && value >= 0,
           "environment variable ", name, " must be a number of at least 0, got '", text, "'");
  return value;
}

double comm_timeout() {
  static const double seconds = [] {
    const double value = env_seconds("MXLITE_COMM_TIMEOUT", 600);
    MX_CHECK(value > 0, "environment variable MXLITE_COMM_TIMEOUT must be seconds above 0, got 0");
    return value;
  }();
  return seconds;
}

double silence_limit() { return std::min(comm_timeout(), 60.0); }

}  // namespace mxlite
