#include "cpp/kvstore/store/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

#include "cpp/base/error.h"

namespace mxlite::store {
namespace {

class Fields {
 public:
  explicit Fields(const Json& json) : fields_(json) {
    MX_CHECK(json.is_object(), "set_optimizer: lr_scheduler must be a JSON object");
  }
  double number(const char* name, std::optional<double> fallback = {}) const {
    const auto found = fields_.find(name);
    if (found == fields_.end() && fallback) return *fallback;
    MX_CHECK(found != fields_.end() && found->is_number(), "set_optimizer: lr_scheduler: ", name,
             " must be a number");
    return found->get<double>();
  }
  std::string text(const char* name, const std::string& fallback) const {
    const auto found = fields_.find(name);
    if (found == fields_.end()) return fallback;
    MX_CHECK(found->is_string(), "set_optimizer: lr_scheduler: ", name, " must be a string");
    return found->get<std::string>();
  }
  std::vector<double> numbers(const char* name) const {
    const auto found = fields_.find(name);
    const bool good = found != fields_.end() && found->is_array() &&
                      std::all_of(found->begin(), found->end(),
                                  [](const Json& item) { return item.is_number(); });
    MX_CHECK(good, "set_optimizer: lr_scheduler: ", name, " must be a list of numbers");
    return found->get<std::vector<double>>();
  }

 private:
  const Json& fields_;
};

class WithWarmup : public Schedule {
 public:
  explicit WithWarmup(const Fields& f)
      : base_(f.number("base_lr")),
        steps_(f.number("warmup_steps", 0)),
        begin_(f.number("warmup_begin_lr", 0)),
        final_(f.number("warmup_final_lr", base_)),
        linear_(f.text("warmup_mode", "linear") == "linear") {}
  double rate(int64_t update) const final {
    const auto u = static_cast<double>(update);
    if (u >= steps_) return after(u);
    return linear_ ? begin_ + (final_ - begin_) * u / steps_ : begin_;
  }

 protected:
  virtual double after(double update) const = 0;
  double base_, steps_;

 private:
  double begin_, final_;
  bool linear_;
};

// Multiplies repeatedly like the Python class, so that results are bitwise equal.
class Factor final : public WithWarmup {
 public:
  explicit Factor(const Fields& f)
      : WithWarmup(f),
        step_(f.number("step")),
        factor_(f.number("factor", 1)),
        least_(f.number("stop_factor_lr", 1e-8)),
        count_(f.number("count", 0)) {
    MX_CHECK(step_ >= 1, "set_optimizer: lr_scheduler: step must be at least 1, got ", step_);
  }

 private:
  double after(double update) const override {
    double rate = base_;
    for (double count = count_; update > count + step_; count += step_) {
      const double next = rate * factor_;
      if (next < least_) return least_;
      if (next == rate) break;
      rate = next;
    }
    return rate;
  }
  double step_, factor_, least_, count_;
};

class MultiFactor final : public WithWarmup {
 public:
  explicit MultiFactor(const Fields& f)
      : WithWarmup(f),
        steps_at_(f.numbers("step")),
        factor_(f.number("factor", 1)),
        first_(static_cast<size_t>(std::max(0.0, f.number("cur_step_ind", 0)))) {}

 private:
  double after(double update) const override {
    double rate = base_;
    for (size_t i = first_; i < steps_at_.size() && update > steps_at_[i]; ++i) rate *= factor_;
    return rate;
  }
  std::vector<double> steps_at_;
  double factor_;
  size_t first_;
};

class Decay final : public WithWarmup {
 public:
  Decay(const Fields& f, bool cosine)
      : WithWarmup(f),
        cosine_(cosine),
        highest_(f.number("base_lr_orig", base_)),
        lowest_(f.number("final_lr", 0)),
        end_(f.number("max_update")),
        power_(cosine ? 0 : f.number("power", f.number("pwr", 2))) {}

 private:
  double after(double update) const override {
    const double length = end_ - steps_;
    const double done = length > 0 ? std::min(1.0, (update - steps_) / length) : 1.0;
    const double shape =
        cosine_ ? (1 + std::cos(std::numbers::pi * done)) / 2 : std::pow(1 - done, power_);
    return lowest_ + (highest_ - lowest_) * shape;
  }
  bool cosine_;
  double highest_, lowest_, end_, power_;
};

}  // namespace

std::shared_ptr<const Schedule> make_schedule(const Json& description) {
  const Fields fields(description);
  const std::string name = fields.text("name", "");
  if (name == "FactorScheduler") return std::make_shared<Factor>(fields);
  if (name == "MultiFactorScheduler") return std::make_shared<MultiFactor>(fields);
  if (name == "PolyScheduler") return std::make_shared<Decay>(fields, false);
  if (name == "CosineScheduler") return std::make_shared<Decay>(fields, true);
  fail(
      ErrorKind::kNotSupported,
      "set_optimizer: lr_scheduler must be FactorScheduler, MultiFactorScheduler, PolyScheduler or "
      "CosineScheduler on servers, got '",
      name,
      "'; with another one, update on the workers "
      "(update_on_kvstore=False)");
}

}  // namespace mxlite::store
