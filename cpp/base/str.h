// str("a", 1, shape) joins its arguments through operator<<. libstdc++ 12 has no <format>.
#pragma once
#include <sstream>
#include <string>

namespace mxlite {

template <class... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // else it drops text when memory runs out
  (out << ... << args);
  return std::move(out).str();
}

}  // namespace mxlite
