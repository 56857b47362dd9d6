#include "cpp/base/str.h"

#include <sstream>

namespace mxlite {

std::string concatenate(std::initializer_list<Printed> parts) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // otherwise the stream drops text if memory runs out
  for (const Printed& part : parts) out << part;
  return std::move(out).str();
}

}  // namespace mxlite
