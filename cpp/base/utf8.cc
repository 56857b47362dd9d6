#include "cpp/base/utf8.h"

#include <cstddef>

namespace mxlite {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto at = [&](size_t k) { return static_cast<unsigned char>(text[i + k]); };
    const unsigned char first = at(0);
    const size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if ((first >= 0x80 && first < 0xC2) || first > 0xF4 || text.size() - i < length) return false;
    for (size_t k = 1; k < length; ++k)
      if (!is_continuation(at(k))) return false;
    // Reject overlong encodings, surrogates and code points above U+10FFFF.
    if ((first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) > 0x9F) ||
        (first == 0xF0 && at(1) < 0x90) || (first == 0xF4 && at(1) > 0x8F))
      return false;
    i += length;
  }
  return true;
}

}  // namespace mxlite
