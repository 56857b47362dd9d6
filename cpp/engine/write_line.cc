#include "cpp/engine/write_line.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace mxlite::engine {
namespace {

constexpr int kCountBits = 52;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
constexpr size_t kMostLines = (size_t{1} << (64 - kCountBits)) - 1;

// Number of the current line, shifted to the upper bits of a version. The value is 0 if no line is
// known.
thread_local uint64_t current = 0;

std::mutex mutex;
std::vector<Origin>& lines() {  // guarded by mutex; line i has the number i + 1
  static auto* const all = new std::vector<Origin>;
  return *all;
}

uint64_t number_of(Origin line) noexcept {
  thread_local std::pair<Origin, uint64_t> last;  // cache, because loops write from one line
  const auto same = [&](Origin o) { return o.file == line.file && o.line == line.line; };
  if (!line.file) return 0;
  if (same(last.first)) return last.second;
  const std::lock_guard lock(mutex);
  std::vector<Origin>& all = lines();
  auto at = std::find_if(all.begin(), all.end(), same);
  if (at == all.end()) {
    if (all.size() == kMostLines) return 0;
    try {
      at = all.insert(at, line);
    } catch (const std::bad_alloc&) {
      return 0;
    }
  }
  last = {line, static_cast<uint64_t>(at - all.begin() + 1) << kCountBits};
  return last.second;
}

}  // namespace

WriteLine::WriteLine(Origin line) noexcept : outer_(std::exchange(current, number_of(line))) {}

WriteLine::~WriteLine() { current = outer_; }

uint64_t version_after(uint64_t version) { return ((version & kCountMask) + 1) | current; }

Origin line_of_version(uint64_t version) {
  const uint64_t number = version >> kCountBits;
  const std::lock_guard lock(mutex);
  return number > 0 ? lines()[number - 1] : Origin{};
}

}  // namespace mxlite::engine
