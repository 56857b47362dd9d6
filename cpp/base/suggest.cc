#include "cpp/base/suggest.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace mxlite {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = std::tolower(a[i - 1]) == std::tolower(b[j - 1]);
      const size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (same ? 0 : 1)});
      diagonal = row[j];
      row[j] = next;
    }
  }
  return row[b.size()];
}

// Pairs of keywords with the same meaning in different operators or libraries.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"axis", "dim"}, {"dim", "axis"}, {"axes", "axis"}, {"keepdim", "keepdims"}, {"size", "shape"}};

}  // namespace

std::string did_you_mean(std::string_view given, std::span<const std::string> candidates) {
  for (const auto& [name, other] : kOtherNames)
    if (name == given && std::ranges::find(candidates, other) != candidates.end())
      return "; did you mean '" + std::string(other) + "'?";
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(1, given.size() / 3) + 1;
  for (const std::string& name : candidates) {
    const size_t distance = edit_distance(given, name);
    if (distance < best_distance || (best && distance == best_distance && name < *best)) {
      best = &name;
      best_distance = distance;
    }
  }
  return best ? "; did you mean '" + *best + "'?" : "";
}

}  // namespace mxlite
