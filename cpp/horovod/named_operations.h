// Operations that ranks submit by name and in any order, as in Horovod.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cpp/horovod/negotiator.h"
#include "cpp/jobs/job.h"

namespace mxlite::horovod {

// Finds this rank's operations by name, and runs those that the negotiator selects.
class NamedOperations final : public jobs::Negotiation {
 public:
  // Adds the process sets in the options of the job.
  explicit NamedOperations(jobs::Job& job);

  void take(OperationRef& operation) override;
  bool has_news() const override { return !news_.empty(); }
  std::vector<std::byte> make_frame() override;
  void read(const std::vector<std::vector<std::byte>>& frames) override;
  bool carry_out() override;
  bool is_busy() const override { return open_ > 0; }
  std::vector<jobs::Stall> stalls(double longer_than) const override {
    return negotiator_.stalls(longer_than);
  }
  uint64_t cache_hits() const override { return negotiator_.cache_hits(); }
  void end(const std::exception_ptr& cause) noexcept override;

 private:
  // Stores the operation under its name. Returns false if another operation already has this name.
  bool open(OperationRef& operation);
  OperationRef close(const ResponseEntry& entry);  // returns null if this rank has not submitted
                                                   // the operation
  void find_by_name(const std::vector<uint32_t>& forgotten);
  void carry_out(const Response& response);
  void change_sets(const Response& response, Operation& operation);

  jobs::Job& job_;
  Negotiator negotiator_;
  // Maps names to operations. The key is the cache number if the cache contains the name, otherwise
  // the request's key.
  struct Known {
    uint32_t stamp = 0;
    OperationRef operation;
  };
  std::vector<Known> known_;
  std::unordered_map<std::string_view, OperationRef> pending_;
  size_t open_ = 0;  // operations in both maps
  // Operations that wait until another operation of the same name has ended. next_ contains the
  // operations that may start now.
  std::unordered_map<std::string, std::deque<OperationRef>> queued_;
  std::vector<OperationRef> next_;
  std::vector<const SharedRequest*> news_;  // requests of operations to announce in the next frame
  std::vector<Response> responses_;         // responses to carry out
  std::vector<OperationRef> operations_;    // kept as a member only to reuse its memory
  std::unordered_set<std::string> negotiating_;  // names with an open row on the timeline of rank 0
  Negotiator::Announced announced_;  // callback that marks announcements on the timeline of rank 0
};

// Passed to CommThread::start
std::unique_ptr<jobs::Negotiation> negotiate_by_name(jobs::Job& job);

}  // namespace mxlite::horovod
