// Makes "; did you mean 'axis'?" for misspelt names in errors.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace mxlite {

// Returns a text such as "; did you mean 'axis'?", or "" if no name is similar enough (edit
// distance above a third of the name).
std::string did_you_mean(std::string_view given, std::span<const std::string> candidates);

}  // namespace mxlite
