// Logs the random numbers that a part of a program draws, so that the part can run again with the
// same numbers.
#pragma once
#include <vector>

#include "cpp/core/random.h"

namespace mxlite {

using RandomLog = std::vector<RandomState>;

// Appends this thread's reservations to a log during the object's lifetime. Scopes nest, and every
// open scope logs each reservation. A scope that began before a replay does not log reservations
// that the replay serves.
class RandomLogScope {
 public:
  explicit RandomLogScope(RandomLog& log);
  ~RandomLogScope();
  RandomLogScope& operator=(RandomLogScope&&) = delete;  // neither copied nor moved

  void note(RandomState reserved);

 private:
  RandomLog& log_;
  RandomLogScope* outer_;
};

// Serves this thread's reservations from a log, in the log's order, during the object's lifetime. A
// reservation beyond the end of the log throws.
class RandomLogReplay {
 public:
  explicit RandomLogReplay(const RandomLog& log);
  ~RandomLogReplay();
  RandomLogReplay& operator=(RandomLogReplay&&) = delete;  // neither copied nor moved

  RandomState next();
  // Returns whether all reservations in the log have been served.
  bool is_used_up() const { return position_ == log_.size(); }

 private:
  const RandomLog& log_;
  size_t position_ = 0;
  RandomLogReplay* outer_;
  RandomLogScope* noted_outside_;  // logs that do not record reservations served by this replay
};

}  // namespace mxlite
