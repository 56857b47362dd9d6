#include "cpp/ops/plan_choice.h"

#include <cstdio>
#include <limits>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/ops/plan_store.h"

namespace mxlite {
namespace {

// Maximum number of candidates to measure; the library lists the best candidates first. Candidates
// that the rules exclude (many for float32) do not count.
constexpr int64_t kMostMeasured = 12;
// Replaces kMostMeasured if building a candidate takes longer than kSlowBuild (it is compiled).
constexpr int64_t kMostSlow = 4;
constexpr std::chrono::milliseconds kSlowBuild{100};

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

float time_of(PlanCandidates& candidates, int64_t index) {
  try {
    return candidates.measure(index);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
    return std::numeric_limits<float>::infinity();  // no memory for its workspace
  }
}

// Result of measuring: index of the fastest candidate (-1 if none can run), and index of the first
// candidate that was not tried.
struct Measured {
  int64_t best = -1, next = 0;
};

Measured measure_first(PlanCandidates& candidates, const TuningBudget& budget) {
  Measured result;
  float least = std::numeric_limits<float>::infinity();
  int64_t measured = 0, most = kMostMeasured;
  for (; measured < most && result.next < candidates.count(); ++result.next) {
    const auto begin = budget.now();
    const bool built = candidates.build(result.next);
    if (budget.now() - begin > kSlowBuild) most = kMostSlow;
    if (!built) continue;
    ++measured;
    const float time = time_of(candidates, result.next);
    if (time < least) {
      least = time;
      result.best = result.next;
    }
  }
  return result;
}

int64_t choose(PlanCandidates& candidates, const std::string& problem, const Tuning* tuning) {
  if (!tuning) return build_first(candidates, 0);
  if (const auto known = tuning->store.find(problem))
    if (const int64_t index = build_named(candidates, *known); index >= 0) return index;
  if (!tuning->budget.is_left()) return build_first(candidates, 0);
  const TuningBudget::Measuring measuring(tuning->budget);
  const Measured measured = measure_first(candidates, tuning->budget);
  // If no measured candidate can run, takes the first other candidate that can be built.
  if (measured.best < 0) return build_first(candidates, measured.next);
  if (const std::string name = candidates.name(measured.best); !name.empty())
    tuning->store.add(problem, name);
  return measured.best;
}

}  // namespace

PlanChoice choose_plan(PlanCandidates& candidates, const PlanRules& rules,
                       const std::string& problem, const Tuning* tuning) {
  if (std::string reason = candidates.list(); !reason.empty()) return {-1, reason};
  candidates.exclude(rules);  // after list(), because exclude affects only listed candidates
  if (std::string reason = candidates.supported(); !reason.empty()) return {-1, reason};
  const int64_t index = choose(candidates, problem, tuning);
  return {index, index < 0 ? "none of its engines could be built" : ""};
}

int64_t run_other_candidate(PlanCandidates& candidates, int64_t failed, const std::string& reason,
                            const std::string& problem,
                            const std::function<std::string(int64_t index)>& run) {
  for (int64_t i = 0; i < candidates.count(); ++i) {
    if (i == failed || !candidates.build(i) || !run(i).empty()) continue;
    std::fprintf(stderr, "mxlite: %s: %s failed (%s), so %s runs\n", problem.c_str(),
                 candidates.name(failed).c_str(), reason.c_str(), candidates.name(i).c_str());
    return i;
  }
  fail(ErrorKind::kDevice, problem, ": ", reason);
}

TuningBudget& TuningBudget::of_process() {
  static auto* const budget = new TuningBudget(
      static_cast<double>(env_int("MXLITE_TUNING_SECONDS", 60)), 10,
      [](const std::string& line) { std::fprintf(stderr, "mxlite: %s\n", line.c_str()); },
      [] { return Clock::now(); });  // leaked: workers may outlive static destructors
  return *budget;
}

bool TuningBudget::is_left() {
  const std::lock_guard lock(mutex_);
  return spent_ < seconds_;
}

void TuningBudget::spend(Clock::time_point begin) {
  const std::chrono::duration<double> elapsed = now_() - begin;
  const std::lock_guard lock(mutex_);
  const bool was_left = spent_ < seconds_;
  spent_ += elapsed.count();
  ++problems_;
  const std::string so_far = str("measured the algorithms of ", problems_, " problems in ",
                                 static_cast<int64_t>(spent_), " s");
  if (was_left && spent_ >= seconds_) {
    print_(str(so_far, ", all of MXLITE_TUNING_SECONDS: others take the library's first choice"));
  } else if (spent_ - printed_at_ >= interval_) {
    printed_at_ = spent_;
    print_(str(so_far, "; later runs find the results"));
  }
}

}  // namespace mxlite
