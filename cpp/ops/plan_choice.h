// Decides which of a library's candidates for a problem runs: the one that was measured to be the
// fastest before, else the fastest of those measured now, else the first that can be built.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace mxlite {

class PlanStore;

// The properties that exclude a candidate for a problem.
struct PlanRules {
  bool no_tensor_cores = false;       // they round float32 to TF32
  bool no_down_conversion = false;    // inputs stay as wide as they are
  bool no_reduced_reduction = false;  // sums stay in float32
  bool deterministic = false;
  int64_t most_workspace = INT64_MAX;  // bytes
};

// Candidates of a library for one problem, in its own order of preference. choose_plan calls list,
// then exclude, then supported, then the others.
class PlanCandidates {
 public:
  virtual ~PlanCandidates() = default;
  // Asks the library for candidates. list and supported return its reason where there are none,
  // otherwise an empty text.
  virtual std::string list() = 0;
  // Bars those listed candidates that break a rule: they are no longer built.
  virtual void exclude(const PlanRules& rules) = 0;
  virtual std::string supported() = 0;
  virtual int64_t count() const = 0;
  // The same in every process with this library and device; empty: has none, cannot be kept.
  virtual std::string name(int64_t index) const = 0;
  // False where the library cannot, or may not, make it.
  virtual bool build(int64_t index) = 0;
  // Milliseconds of one run of a candidate that has been built; infinity where it fails. May throw
  // an error of kind kOutOfMemory, which means the same.
  virtual float measure(int64_t index) = 0;
};

// Time that a process spends on measuring. Afterwards the library's first choice is taken.
class TuningBudget {
 public:
  using Clock = std::chrono::steady_clock;
  using Print = std::function<void(const std::string& line)>;
  // `print` gets a line after every interval of measuring, and one when the time is used up.
  TuningBudget(double seconds, double interval, Print print, std::function<Clock::time_point()> now)
      : seconds_(seconds), interval_(interval), print_(std::move(print)), now_(std::move(now)) {}
  // MXLITE_TUNING_SECONDS, with lines on the standard error output.
  static TuningBudget& of_process();

  bool is_left();
  // Counts the measuring of one problem while it lives.
  class Measuring {
   public:
    explicit Measuring(TuningBudget& budget) : budget_(budget), begin_(budget.now_()) {}
    ~Measuring() { budget_.spend(begin_); }
    Measuring(const Measuring&) = delete;
    Measuring& operator=(const Measuring&) = delete;

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
  int64_t index = -1;  // a candidate that has been built, or -1
  std::string reason;  // why there is none
};

// Measures only if `tuning` is given, and then keeps the result under `problem`.
PlanChoice choose_plan(PlanCandidates& candidates, const PlanRules& rules,
                       const std::string& problem, const Tuning* tuning);

}  // namespace mxlite
