// Chooses one of a library's candidates for a problem: the fastest in an earlier measurement, else
// the fastest in a measurement now, else the first candidate that can be built.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace mxlite {

class PlanStore;

// Properties that exclude a candidate.
struct PlanRules {
  bool no_tensor_cores = false;       // exclude: tensor cores round float32 to TF32
  bool no_down_conversion = false;    // exclude candidates that round inputs to a smaller type
  bool no_reduced_reduction = false;  // exclude candidates that sum in less than float32
  bool deterministic = false;
  int64_t most_workspace = INT64_MAX;  // bytes
};

// Candidates of a library for one problem, in the library's order of preference. choose_plan calls
// list, then exclude, then supported, then the other functions.
class PlanCandidates {
 public:
  virtual ~PlanCandidates() = default;
  // Asks the library for candidates. list and supported return "", or why there are no candidates.
  virtual std::string list() = 0;
  // Excludes listed candidates that violate a rule: build() returns false for them.
  virtual void exclude(const PlanRules& rules) = 0;
  virtual std::string supported() = 0;
  virtual int64_t count() const = 0;
  // Returns a name that identifies the candidate in other processes, for the plan store; "" if
  // there is none.
  virtual std::string name(int64_t index) const = 0;
  // Returns false if the library cannot build the candidate or the rules exclude it.
  virtual bool build(int64_t index) = 0;
  // Returns the milliseconds of one run of a built candidate, or infinity if it fails. May also
  // throw kOutOfMemory if it fails.
  virtual float measure(int64_t index) = 0;
};

// Limit for the time that a process spends measuring. After it, the library's first choice is used.
class TuningBudget {
 public:
  using Clock = std::chrono::steady_clock;
  using Print = std::function<void(const std::string& line)>;
  // Calls `print` with a line after every `interval` seconds of measuring and at the end.
  TuningBudget(double seconds, double interval, Print print, std::function<Clock::time_point()> now)
      : seconds_(seconds), interval_(interval), print_(std::move(print)), now_(std::move(now)) {}
  // Returns the budget of this process: MXLITE_TUNING_SECONDS seconds. Its lines are printed to
  // standard error.
  static TuningBudget& of_process();

  bool is_left();
  Clock::time_point now() const { return now_(); }
  // Counts the time for which the object exists as time spent on measuring one problem.
  class Measuring {
   public:
    explicit Measuring(TuningBudget& budget) : budget_(budget), begin_(budget.now_()) {}
    ~Measuring() { budget_.spend(begin_); }
    Measuring& operator=(Measuring&&) = delete;  // neither copied nor moved

   private:
    TuningBudget& budget_;
    const Clock::time_point begin_;
  };

 private:
  void spend(Clock::time_point begin);

  const double seconds_, interval_;
  const Print print_;
  const std::function<Clock::time_point()> now_;
  std::mutex mutex_;
  double spent_ = 0, printed_at_ = 0;  // guarded by mutex_
  int64_t problems_ = 0;               // guarded by mutex_
};

struct Tuning {
  PlanStore& store;
  TuningBudget& budget;
};

struct PlanChoice {
  int64_t index = -1;  // index of a built candidate, or -1
  std::string reason;  // why there is no candidate, if index is -1
};

// Measures candidates only if `tuning` is given; stores the result in tuning->store for `problem`.
PlanChoice choose_plan(PlanCandidates& candidates, const PlanRules& rules,
                       const std::string& problem, const Tuning* tuning);

// Runs a candidate other than `failed`, which could not run for the given reason, and returns its
// index. `run` returns "", or why the candidate failed. A line on standard error names both
// candidates. Throws kDevice with the given reason if no other candidate can run.
int64_t run_other_candidate(PlanCandidates& candidates, int64_t failed, const std::string& reason,
                            const std::string& problem,
                            const std::function<std::string(int64_t index)>& run);

}  // namespace mxlite
