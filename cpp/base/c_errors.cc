#include "cpp/base/c_errors.h"

#include <algorithm>

#include "cpp/base/utf8.h"

namespace mxlite {
namespace {

thread_local std::string last_text;
thread_local bool is_stored = true;  // false if there was no memory for the text

}  // namespace

const char* last_c_error() noexcept { return is_stored ? last_text.c_str() : "out of memory"; }

void set_last_c_error(const char* who, const char* text) noexcept {
  try {
    last_text = who ? str(who, ": ", text) : std::string(text);
    if (!is_utf8(last_text))  // the text quotes bytes of a damaged file or of the caller
      std::ranges::replace_if(
          last_text, [](char c) { return (c & 0x80) != 0; }, '?');
    is_stored = true;
  } catch (const std::exception&) {
    is_stored = false;
  }
}

}  // namespace mxlite
