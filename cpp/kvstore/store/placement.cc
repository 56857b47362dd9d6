#include "cpp/kvstore/store/placement.h"

#include <algorithm>

#include "cpp/base/error.h"

namespace mxlite::store {

Layout make_layout(const TensorSpec& spec, int num_servers, int server, int64_t big_array) {
  Layout layout;
  const int64_t count = spec.shape.size();
  const int64_t rows = spec.shape.ndim() > 0 ? spec.shape[0] : 1;
  layout.row_size = rows > 0 && count > 0 ? count / rows : 1;
  if (layout.row_size > 2 * kPartElements) {
    layout.row_size = 1;
    layout.by_rows = false;
  }
  const int64_t units = count / layout.row_size;
  const int64_t unit_limit = std::max<int64_t>(1, kPartElements / layout.row_size);
  const int shares = count >= big_array ? num_servers : 1;
  for (int s = 0; s < shares; ++s) {
    const int64_t first = units * s / shares, last = units * (s + 1) / shares;
    const int64_t pieces = (last - first + unit_limit - 1) / unit_limit;
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t begin = first + (last - first) * p / pieces;
      const int64_t end = first + (last - first) * (p + 1) / pieces;
      layout.parts.push_back(
          {shares > 1 ? s : server, begin * layout.row_size, (end - begin) * layout.row_size});
    }
  }
  if (layout.parts.empty()) layout.parts.push_back({server, 0, 0});
  return layout;
}

int Placement::place(const std::string& key, int64_t bytes) {
  if (const auto found = keys_.find(key); found != keys_.end()) return found->second.server;
  const auto least = std::min_element(load_.begin(), load_.end());
  *least += bytes;
  return keys_.emplace(key, Key{static_cast<int>(least - load_.begin()), {}, -1})
      .first->second.server;
}

void Placement::note(const std::string& key, int worker, const std::string& spec) {
  Key& k = keys_.at(key);
  if (k.first < 0) k.first = worker;
  if (worker == k.first || k.specs.at(k.first) != spec) k.specs.emplace(worker, spec);
}

std::string Placement::conflict(const std::string& key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end() || found->second.specs.size() < 2) return {};
  std::string text;
  for (const auto& [worker, spec] : found->second.specs)
    text += str(text.empty() ? "" : ", ", "worker ", worker, " gives ", spec);
  return text;
}

}  // namespace mxlite::store
