// Plans of a library by problem and device, kept until the process ends.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace mxlite {

template <class Plan, class Problem, class Hash>
class PlanCache {
 public:
  struct Made {
    std::shared_ptr<Plan> plan;  // null if the library has no plan, which is kept as well
    bool measured = true;        // false: another choice may be faster
  };

  // Returns the plan of the problem. Calls `make` if there is none, or if it is not measured and
  // `may_measure` returns true. One worker thread per device makes plans; the lock is needed if
  // there are several devices.
  template <class Make, class MayMeasure>
  std::shared_ptr<Plan> get(const Problem& problem, int device, Make&& make,
                            MayMeasure&& may_measure) {
    const std::lock_guard lock(mutex_);
    const Key key{problem, device};
    const auto known = plans_.find(key);
    if (known == plans_.end()) return plans_.emplace(key, make()).first->second.plan;
    if (!known->second.measured && may_measure()) {
      // Recorded graphs launch kernels of the former plan, so it stays loaded.
      replaced_.push_back(std::move(known->second.plan));
      known->second = make();
    }
    return known->second.plan;
  }

 private:
  struct Key {
    Problem problem;
    int device;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      return Hash()(k.problem) * 31 + static_cast<size_t>(k.device);
    }
  };

  std::mutex mutex_;
  std::unordered_map<Key, Made, KeyHash> plans_;  // guarded by mutex_
  std::vector<std::shared_ptr<Plan>> replaced_;   // guarded by mutex_
};

}  // namespace mxlite
