// Looks for the fusion threshold and the cycle time that move the most bytes per second: tries
// points, models the rate as a Gaussian process, and goes where an improvement is most expected.
#pragma once
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "cpp/kvstore/horovod/negotiator.h"

namespace mxlite::horovod {

struct AutotuneOptions {
  bool enabled = false;
  std::string log;             // CSV; empty: none
  int warmup_samples = 3;      // thrown away
  int rounds_per_sample = 10;  // with traffic
  int max_samples = 20;
  double noise = 0.8;  // of the Gaussian process, relative to the rates' spread
  bool fixed_fusion = false, fixed_cycle = false;  // the user has chosen
};

class Autotuner {
 public:
  Autotuner(const AutotuneOptions& options, const NegotiationSettings& first);

  // After each round with traffic; new settings when it is time to try some.
  std::optional<NegotiationSettings> record(int64_t bytes, double seconds);
  bool done() const { return done_; }

 private:
  struct Point {
    double fusion = 0, cycle = 0;  // both scaled to 0..1
  };
  struct Sample {
    Point point;
    double rate = 0;
  };

  Point next_point() const;
  NegotiationSettings settings_of(Point point) const;
  void write_log(const Sample& sample, const char* what);

  AutotuneOptions options_;
  NegotiationSettings settings_;
  Point current_;
  std::vector<Sample> samples_;
  std::vector<double> rates_;  // of the rounds of the sample that is measured
  int rounds_ = 0, warmups_ = 0;
  bool done_ = false;
  std::ofstream log_;
};

}  // namespace mxlite::horovod
