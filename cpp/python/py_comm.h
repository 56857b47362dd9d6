// Runs named collectives as tasks of the engine.
#pragma once
#include <pybind11/pybind11.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "cpp/engine/deferred.h"
#include "cpp/kvstore/horovod/session.h"

namespace mxlite::python {

using horovod::CollectiveKind;
using horovod::NamedOperation;
using horovod::OperationRef;
using horovod::Request;
using horovod::RequestRef;
using horovod::Session;
using horovod::SharedRequest;

// Returns the device on which a collective takes an array that is on `device`: this process's GPU
// of the job if NCCL carries it, pinned host memory for the other arrays on GPUs, else `device`.
Device place_for_collectives(Device device, DType dtype, Session& session);
// Returns the GPU of an array for the terms of a request; -1 if it is in host memory.
int32_t gpu_number(Device device);

void bind_comm(pybind11::module_& m);
void bind_buckets(pybind11::module_& m);
void bind_coded_buckets(pybind11::module_& m);
void bind_device_group(pybind11::module_& m);
// Lets collective operators run in the job; until then every process is alone.
void provide_collectives();

// Runs when its arrays are ready: submits its operations, and ends when all of them have ended.
class CollectiveTask final : public engine::DeferredTask, public horovod::OperationOwner {
 public:
  CollectiveTask(const char* name, engine::Origin origin, std::vector<OperationRef> operations,
                 std::shared_ptr<Session> session);
  void start() override;
  void release_operands() noexcept override;
  void describe(std::string& out) const override { out += text(); }
  void notify(size_t operations, std::exception_ptr error) override;

  // Waits until all operations have ended; rethrows the first error. For outputs that are allocated
  // later.
  void wait();

 private:
  void announce_failure() noexcept;
  std::string text() const;

  std::vector<OperationRef> operations_;
  std::shared_ptr<Session> session_;
  const RequestRef first_;
  const size_t count_;
  bool started_ = false;  // used only by the thread that runs the task
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t left_;               // guarded by mutex_
  std::exception_ptr error_;  // guarded by mutex_
};

// Gives an operation on a bucket the next number of its process set's ordered calls, and pushes the
// task that runs it.
void push_bucket_call(OperationRef operation, const Request& terms, const engine::Access& access);

}  // namespace mxlite::python
