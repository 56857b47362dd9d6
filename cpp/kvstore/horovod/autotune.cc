#include "cpp/kvstore/horovod/autotune.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cpp/base/error.h"

namespace mxlite::horovod {
namespace {

constexpr double kMaxFusion = 64.0 * (1 << 20);   // bytes
constexpr double kMinCycle = 1, kMaxCycle = 100;  // ms
constexpr double kLength = 0.3;                   // distance over which rates are similar
constexpr int kGrid = 20;
// First points: corners and middle of the square.
constexpr double kFirst[][2] = {{0.5, 0.05}, {1, 0}, {0.12, 0.02}, {0.5, 0.5}};

using Matrix = std::vector<std::vector<double>>;

// Solves L L^T x = b for the factor L.
std::vector<double> solve(const Matrix& factor, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= factor[i][k] * b[k];
    b[i] /= factor[i][i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= factor[k][i] * b[k];
    b[i] /= factor[i][i];
  }
  return b;
}

Matrix cholesky(Matrix a) {
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j][j];
    }
  return a;
}

double expected_improvement(double mean, double deviation, double best) {
  if (deviation < 1e-9) return std::max(0.0, mean - best);
  const double z = (mean - best) / deviation;
  const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
  return (mean - best) * 0.5 * std::erfc(-z / std::numbers::sqrt2) + deviation * density;
}

}  // namespace

Autotuner::Autotuner(const AutotuneOptions& options, const NegotiationSettings& first)
    : options_(options), settings_(first), done_(!options.enabled) {
  current_ = {std::clamp(static_cast<double>(first.fusion_bytes) / kMaxFusion, 0.0, 1.0),
              std::clamp((first.cycle_ms - kMinCycle) / (kMaxCycle - kMinCycle), 0.0, 1.0)};
  if (done_ || options.log.empty()) return;
  log_.open(options.log, std::ios::trunc);
  MX_CHECK_KIND(log_.is_open(), ErrorKind::kRecord, "autotune: log file '", options.log,
                "' cannot be written");
  log_ << "state,fusion_threshold_mb,cycle_time_ms,bytes_per_us\n";
}

NegotiationSettings Autotuner::settings_of(Point point) const {
  NegotiationSettings s = settings_;
  if (!options_.fixed_fusion) s.fusion_bytes = static_cast<int64_t>(point.fusion * kMaxFusion);
  if (!options_.fixed_cycle) s.cycle_ms = kMinCycle + point.cycle * (kMaxCycle - kMinCycle);
  return s;
}

std::optional<NegotiationSettings> Autotuner::record(int64_t bytes, double seconds) {
  if (done_) return std::nullopt;
  if (seconds > 0) rates_.push_back(static_cast<double>(bytes) / seconds * 1e-6);
  if (++rounds_ < options_.rounds_per_sample || rates_.empty()) return std::nullopt;
  std::nth_element(rates_.begin(), rates_.begin() + rates_.size() / 2, rates_.end());
  const Sample sample{current_, rates_[rates_.size() / 2]};
  rounds_ = 0;
  rates_.clear();
  if (warmups_ < options_.warmup_samples) {
    ++warmups_;
    write_log(sample, "warmup");
    return std::nullopt;
  }
  write_log(sample, "sample");
  samples_.push_back(sample);
  if (static_cast<int>(samples_.size()) >= options_.max_samples) {
    done_ = true;
    const auto best =
        std::max_element(samples_.begin(), samples_.end(),
                         [](const Sample& a, const Sample& b) { return a.rate < b.rate; });
    current_ = best->point;
    write_log(*best, "chosen");
    return settings_of(current_);
  }
  current_ = next_point();
  return settings_of(current_);
}

Autotuner::Point Autotuner::next_point() const {
  const size_t n = samples_.size();
  if (n < std::size(kFirst)) return {kFirst[n][0], kFirst[n][1]};
  double mean = 0, spread = 0;
  for (const Sample& s : samples_) mean += s.rate / static_cast<double>(n);
  for (const Sample& s : samples_)
    spread += (s.rate - mean) * (s.rate - mean) / static_cast<double>(n);
  spread = std::sqrt(std::max(spread, 1e-12));
  const auto kernel = [](Point a, Point b) {
    const double df = a.fusion - b.fusion, dc = a.cycle - b.cycle;
    return std::exp(-(df * df + dc * dc) / (2 * kLength * kLength));
  };
  Matrix covariance(n, std::vector<double>(n));
  std::vector<double> values(n);
  double best = -1e300;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) covariance[i][j] = kernel(samples_[i].point, samples_[j].point);
    covariance[i][i] += options_.noise * options_.noise;
    values[i] = (samples_[i].rate - mean) / spread;
    best = std::max(best, values[i]);
  }
  const Matrix factor = cholesky(std::move(covariance));
  const std::vector<double> weights = solve(factor, values);
  Point chosen;
  double most = -1;
  for (int f = 0; f <= kGrid; ++f)
    for (int c = 0; c <= kGrid; ++c) {
      // Short cycle times are tried more densely.
      const double share = static_cast<double>(c) / kGrid;
      const Point point{static_cast<double>(f) / kGrid, share * share};
      std::vector<double> near(n);
      for (size_t i = 0; i < n; ++i) near[i] = kernel(point, samples_[i].point);
      const std::vector<double> solved = solve(factor, near);
      double predicted = 0, explained = 0;
      for (size_t i = 0; i < n; ++i) {
        predicted += near[i] * weights[i];
        explained += near[i] * solved[i];
      }
      const double gain =
          expected_improvement(predicted, std::sqrt(std::max(0.0, 1 - explained)), best);
      if (gain > most) {
        most = gain;
        chosen = point;
      }
    }
  return chosen;
}

void Autotuner::write_log(const Sample& sample, const char* what) {
  if (!log_.is_open()) return;
  const NegotiationSettings s = settings_of(sample.point);
  log_ << what << ',' << static_cast<double>(s.fusion_bytes) / (1 << 20) << ',' << s.cycle_ms << ','
       << sample.rate << std::endl;
}

}  // namespace mxlite::horovod
