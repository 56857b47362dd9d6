#include "cpp/ops/plan_choice.h"

#include <algorithm>
#include <limits>

#include "cpp/ops/plan_store.h"

namespace mxlite {
namespace {

// Number of candidates measured; the library lists the good ones first.
constexpr int64_t kMostMeasured = 12;

int64_t build_first(PlanCandidates& candidates, int64_t from) {
  for (int64_t i = from; i < candidates.count(); ++i)
    if (candidates.build(i)) return i;
  return -1;
}

int64_t build_named(PlanCandidates& candidates, const std::string& wanted) {
  for (int64_t i = 0; i < candidates.count(); ++i)
    if (candidates.name(i) == wanted) return candidates.build(i) ? i : -1;
  return -1;
}

int64_t build_fastest(PlanCandidates& candidates) {
  int64_t best = -1;
  float least = std::numeric_limits<float>::infinity();
  const int64_t count = std::min(candidates.count(), kMostMeasured);
  for (int64_t i = 0; i < count; ++i) {
    if (!candidates.build(i)) continue;
    const float time = candidates.measure(i);
    if (time < least) {
      least = time;
      best = i;
    }
  }
  return best;
}

}  // namespace

int64_t choose_plan(PlanCandidates& candidates, const std::string& problem, PlanStore* store) {
  if (!store) return build_first(candidates, 0);
  if (const auto known = store->find(problem))
    if (const int64_t index = build_named(candidates, *known); index >= 0) return index;
  const int64_t index = build_fastest(candidates);
  // The measured ones cannot run, and nothing is known about the speed of the others.
  if (index < 0) return build_first(candidates, kMostMeasured);
  if (const std::string name = candidates.name(index); !name.empty()) store->add(problem, name);
  return index;
}

}  // namespace mxlite
