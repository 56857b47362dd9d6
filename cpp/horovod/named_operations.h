// Operations that the ranks of a job submit by name, in any order, as Horovod does.
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

// Finds this rank's operations by their names, and carries out what the negotiator decides.
class NamedOperations final : public jobs::Negotiation {
 public:
  // Adds the process sets that the options of the job give.
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
  // Registers the operation under its name; returns false if the name belongs to another operation.
  bool open(OperationRef& operation);
  OperationRef close(const ResponseEntry& entry);  // null: not submitted on this rank
  void find_by_name(const std::vector<uint32_t>& forgotten);
  void carry_out(const Response& response);
  void change_sets(const Response& response, Operation& operation);

  jobs::Job& job_;
  Negotiator negotiator_;
  // Maps names to operations: by number if the cache has the name, else by the request's key.
  struct Known {
    uint32_t stamp = 0;
    OperationRef operation;
  };
  std::vector<Known> known_;
  std::unordered_map<std::string_view, OperationRef> pending_;
  size_t open_ = 0;  // operations in both maps
  // Operations that wait for one of the same name to end; next_ holds those whose wait is over.
  std::unordered_map<std::string, std::deque<OperationRef>> queued_;
  std::vector<OperationRef> next_;
  std::vector<const SharedRequest*> news_;       // requests of open operations
  std::vector<Response> responses_;              // to be carried out
  std::vector<OperationRef> operations_;         // kept to reuse its memory
  std::unordered_set<std::string> negotiating_;  // rows of the timeline, rank 0
  Negotiator::Announced announced_;              // marks the timeline, rank 0
};

std::unique_ptr<jobs::Negotiation> negotiate_by_name(jobs::Job& job);  // for CommThread::start

}  // namespace mxlite::horovod
