// Computes the learning rate of an update like the schedulers of mx.lr_scheduler. The attributes of
// the Python object define the schedule.
#pragma once
#include <memory>

#include "cpp/base/json.h"

namespace mxlite::store {

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double rate(int64_t update) const = 0;
};

// `description` contains the attributes of the Python object: {"name": "FactorScheduler",
// "base_lr": 0.1, ...}. Throws a not-supported error for an unknown class, and a value error for a
// wrong field.
std::shared_ptr<const Schedule> make_schedule(const Json& description);

}  // namespace mxlite::store
