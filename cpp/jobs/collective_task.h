// Runs collectives as tasks of the engine.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpp/engine/deferred.h"
#include "cpp/jobs/job.h"

namespace mxlite::jobs {

// An engine task that submits its operations when its arrays are ready. The task ends when all
// operations have ended.
class CollectiveTask final : public engine::DeferredTask, public OperationOwner {
 public:
  CollectiveTask(const char* name, engine::Origin origin, std::vector<OperationRef> operations,
                 std::shared_ptr<Job> job);
  void start() override;
  void release_operands() noexcept override;
  void describe(std::string& out) const override { out += text(); }
  void notify(size_t operations, std::exception_ptr error) override;

  // Waits until all operations have ended and rethrows the first error. If the operations allocate
  // their outputs, the caller must call this function.
  void wait();

 private:
  void announce_failure() noexcept;
  std::string text() const;

  std::vector<OperationRef> operations_;
  std::shared_ptr<Job> job_;
  const RequestRef first_;
  const size_t count_;
  bool started_ = false;  // used only by the thread that runs the task
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t left_;               // guarded by mutex_
  std::exception_ptr error_;  // guarded by mutex_
};

IntrusivePtr<CollectiveTask> push(const char* name, engine::Origin origin,
                                  std::vector<OperationRef> operations, std::shared_ptr<Job> job,
                                  const engine::Access& access, size_t bytes = 0);

// Arguments of one call of a collective in a program, for one or several arrays.
struct CollectiveCall {
  Request terms;         // shared by all arrays; name, dtype and shape differ
  bool ordered = false;  // whether all ranks make the call in the same order
  std::vector<std::string> names;
  std::vector<NDArrayRef> inputs, outputs;  // if outputs is empty, the operation allocates them
};
// A collective that has been submitted. It has its results once the task has ended.
struct PendingCollective {
  std::vector<OperationRef> operations;
  IntrusivePtr<CollectiveTask> task;
};
// Pushes one task for all arrays to the job that this process has joined.
PendingCollective start(const CollectiveCall& call, engine::Origin origin);

// Gives an operation on a bucket the next number among the ordered calls of its process set. Pushes
// the task that runs the operation.
void start_bucket_call(OperationRef operation, const Request& terms, engine::Origin origin,
                       const engine::Access& access);

}  // namespace mxlite::jobs
