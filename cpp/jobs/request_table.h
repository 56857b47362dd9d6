// Reuses the objects of requests that occur in every training step.
#pragma once
#include <mutex>
#include <string>
#include <unordered_map>

#include "cpp/jobs/request.h"

namespace mxlite::jobs {

class RequestTable {
 public:
  // Returns the last request for the name if that request has the same terms and priority,
  // otherwise a new request. Any thread may call this function.
  RequestRef share(const Request& request);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, RequestRef> by_name_;  // guarded by mutex_
};

}  // namespace mxlite::jobs
