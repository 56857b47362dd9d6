// Keeps which random numbers a piece of a program draws, so that it can run again with them.
#pragma once
#include <vector>

#include "cpp/core/random.h"

namespace mxlite {

using RandomLog = std::vector<RandomState>;

// Appends this thread's reservations to a log while it lives. Scopes nest; all of them get each
// reservation, except scopes outside of a replay, which do not get what it answers.
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

// Answers this thread's reservations from a log while it lives, in its order. A reservation beyond
// the end of the log throws.
class RandomLogReplay {
 public:
  explicit RandomLogReplay(const RandomLog& log);
  ~RandomLogReplay();
  RandomLogReplay& operator=(RandomLogReplay&&) = delete;  // neither copied nor moved

  RandomState next();
  // Returns whether every reservation in the log has been answered.
  bool is_used_up() const { return position_ == log_.size(); }

 private:
  const RandomLog& log_;
  size_t position_ = 0;
  RandomLogReplay* outer_;
  RandomLogScope* noted_outside_;  // the logs that do not get what this replay answers
};

}  // namespace mxlite
