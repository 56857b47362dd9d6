#include "cpp/base/env.h"

#include <cerrno>
#include <cstdlib>

#include "cpp/base/error.h"

namespace mxlite {

std::string env_string(const char* name, const std::string& fallback) {
  const char* text = std::getenv(name);
  return text ? text : fallback;
}

int64_t env_int(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  if (!text || !*text) return fallback;
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text, &end, 10);
  MX_CHECK(*end == '\0' && errno == 0, "environment variable ", name, " must be an integer, got '",
           text, "'");
  return value;
}

}  // namespace mxlite
