#include "cpp/base/fields.h"

#include <charconv>
#include <cmath>

namespace mxlite {

std::string number_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  char buffer[32];
  // Prints a value that float32 represents exactly with the digits of a float32: 0.9, not
  // 0.8999999761581421.
  const auto single = static_cast<float>(v);
  const auto end = single == v ? std::to_chars(buffer, buffer + sizeof buffer, single).ptr
                               : std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return {buffer, end};
}

bool NumberRange::is_bounded() const { return !std::isinf(low) || !std::isinf(high); }

bool NumberRange::holds(double number) const {
  return (low_excluded ? number > low : number >= low) &&
         (high_excluded ? number < high : number <= high);
}

std::string range_text(const NumberRange& range) {
  if (!range.is_bounded()) return "";
  const std::string low = number_text(range.low), high = number_text(range.high);
  if (std::isinf(range.high)) return (range.low_excluded ? "above " : "at least ") + low;
  if (std::isinf(range.low)) return (range.high_excluded ? "below " : "at most ") + high;
  return (range.low_excluded ? "above " : "from ") + low + (range.low_excluded ? " and " : " to ") +
         (range.high_excluded  ? "below "
          : range.low_excluded ? "at most "
                               : "") +
         high;
}

}  // namespace mxlite
