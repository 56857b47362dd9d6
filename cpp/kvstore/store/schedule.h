// Learning rates by number of updates: the schedulers of mx.lr_scheduler, built from their
// attributes.
#pragma once
#include <memory>
#include <string>

#include "cpp/base/json.h"

namespace mxlite::store {

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double rate(int64_t update) const = 0;
};

// {"name": "FactorScheduler", "base_lr": 0.1, "step": 100, ...}: the attributes of the Python
// object. Not-supported error for a class that servers do not know, value error for a wrong field.
std::shared_ptr<const Schedule> make_schedule(const Json& description);

}  // namespace mxlite::store
