// str("a", 1, shape) concatenates its arguments with operator<<, because libstdc++ 12 has no
// <format>.
#pragma once
#include <sstream>
#include <string>

namespace mxlite {

template <class... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // otherwise the stream drops text if memory runs out
  (out << ... << args);
  return std::move(out).str();
}

}  // namespace mxlite
