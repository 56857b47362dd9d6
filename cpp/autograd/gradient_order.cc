#include "cpp/autograd/gradient_order.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace mxlite::autograd {
namespace {

// The table also contains freed gradients. Therefore it is cleared when it has grown to this size.
constexpr size_t kMostGradients = size_t{1} << 16;

std::atomic<bool> on{false};

struct Positions {
  std::mutex mutex;
  uint64_t last = 0;                                         // guarded by mutex
  std::unordered_map<const NDArray*, uint64_t> by_gradient;  // guarded by mutex
};

Positions& positions() {
  static auto* const all = new Positions;  // leaked, because threads may run backward while the
                                           // process ends
  return *all;
}

}  // namespace

void set_notes_order(bool value) {
  on.store(value, std::memory_order_relaxed);
  if (value) return;
  Positions& all = positions();
  std::lock_guard lock(all.mutex);
  all.by_gradient.clear();
}

bool notes_order() { return on.load(std::memory_order_relaxed); }

void note_gradients(std::span<const NDArrayRef> gradients) {
  Positions& all = positions();
  std::lock_guard lock(all.mutex);
  if (all.by_gradient.size() > kMostGradients) all.by_gradient.clear();
  for (const NDArrayRef& gradient : gradients) all.by_gradient[gradient.get()] = ++all.last;
}

uint64_t gradient_position(const NDArray& gradient) {
  Positions& all = positions();
  std::lock_guard lock(all.mutex);
  const auto found = all.by_gradient.find(&gradient);
  return found == all.by_gradient.end() ? 0 : found->second;
}

}  // namespace mxlite::autograd
