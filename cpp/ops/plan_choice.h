// Decides which of a library's candidates for a problem runs: the one that was measured to be the
// fastest before, else the fastest of those measured now, else the first that can be built.
#pragma once
#include <cstdint>
#include <string>

namespace mxlite {

class PlanStore;

// Candidates of a library for one problem, in its own order of preference.
class PlanCandidates {
 public:
  virtual ~PlanCandidates() = default;
  virtual int64_t count() const = 0;
  // The same in every process with this library and device; empty: has none, cannot be kept.
  virtual std::string name(int64_t index) const = 0;
  // False where the library cannot, or may not, make it.
  virtual bool build(int64_t index) = 0;
  // Milliseconds of one run of a candidate that has been built; infinity where it fails.
  virtual float measure(int64_t index) = 0;
};

// The index of a candidate that has been built, or -1 where there is none. Without a store nothing
// is measured; with one, what measuring finds is kept under `problem`.
int64_t choose_plan(PlanCandidates& candidates, const std::string& problem, PlanStore* store);

}  // namespace mxlite
