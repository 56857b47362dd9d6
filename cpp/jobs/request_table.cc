#include "cpp/jobs/request_table.h"

namespace mxlite::jobs {
namespace {

// Limits the size of the table, because a name that contains a counter never occurs again.
constexpr size_t kMostNames = 16384;

}  // namespace

RequestRef RequestTable::share(const Request& request) {
  std::lock_guard lock(mutex_);
  const auto found = by_name_.find(request.name);
  if (found == by_name_.end()) {
    if (by_name_.size() >= kMostNames) by_name_.clear();
    return by_name_.emplace(request.name, make_ref<const SharedRequest>(request)).first->second;
  }
  const Request& known = found->second->terms;
  if (known.priority != request.priority || !known.same_terms(request))
    found->second = make_ref<const SharedRequest>(request);
  return found->second;
}

}  // namespace mxlite::jobs
