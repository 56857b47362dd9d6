// Checks of text from files and foreign programs.
#pragma once
#include <string_view>

namespace mxlite {

bool is_utf8(std::string_view text);

}  // namespace mxlite
