// Adds texts such as "; did you mean 'axis'?" to errors about misspelt names.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace mxlite {

// Returns a text such as "; did you mean 'axis'?", or "" if the edit distance to every name is
// above a third of the given name's length.
std::string did_you_mean(std::string_view given, std::span<const std::string> candidates);

}  // namespace mxlite
