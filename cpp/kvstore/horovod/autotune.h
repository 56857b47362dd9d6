// Searches the fusion threshold and the cycle time that move the most bytes per second: tries
// points, models the rate as a Gaussian process, and tries the point of largest expected
// improvement.
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
  int warmup_samples = 3;      // samples that are not used
  int rounds_per_sample = 10;  // rounds with traffic
  int max_samples = 20;
  double noise = 0.8;                              // relative to the spread of the rates
  bool fixed_fusion = false, fixed_cycle = false;  // set by the user, not tuned
};

class Autotuner {
 public:
  Autotuner(const AutotuneOptions& options, const NegotiationSettings& first);

  // Called after each round with traffic; returns new settings when it is time to try some.
  std::optional<NegotiationSettings> record(int64_t bytes, double seconds);
  bool done() const { return done_; }

 private:
  struct Point {
    double fusion = 0, cycle = 0;  // both scaled to [0, 1]
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
  std::vector<double> rates_;  // per round of the current sample
  int rounds_ = 0, warmups_ = 0;
  bool done_ = false;
  std::ofstream log_;
};

}  // namespace mxlite::horovod
