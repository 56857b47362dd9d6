// One collective of this rank, from submission until its owner is notified.
#pragma once
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "cpp/jobs/request.h"
#include "cpp/kvstore/comm/ordered_calls.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite::jobs {

// Must live until it has been notified of all its operations.
class OperationOwner {
 public:
  // Notifies that `count` operations have ended, all with this error, or with success if it is
  // null. Called mostly on the comm thread.
  virtual void notify(size_t operations, std::exception_ptr error) = 0;

 protected:
  ~OperationOwner() = default;
};

// Arrays are contiguous, computed, and in the memory that the request names: host memory or the
// GPU that the job uses. They may be read and written at once. GPU memory that has never been
// written must have been allocated for StreamKind::kCopyIn, unless fresh_in_compute is set.
struct Operation : RefCounted {
  RequestRef asked;
  // Position among the calls that all ranks make in the same order (OrderedCalls); 0: the ranks
  // call in any order and find each other by name.
  uint64_t number = 0;
  CallChannel channel;              // Each channel numbers its ordered calls separately.
  OperationOwner* owner = nullptr;  // null: none, or already notified
  NDArrayRef input;                 // null: for a received message
  NDArrayRef output;    // set for allreduce, broadcast and calls of operators; others allocate it
  int set_number = -1;  // number of a new process set
  // Set for operations in place: if an operation of the same name is pending, this one is queued
  // and not refused. The next step's gradient may be a new array without a dependency on the last.
  bool queues = false;
  // The memory of an array was allocated for StreamKind::kCompute and has not been written yet:
  // the collective waits for that stream.
  bool fresh_in_compute = false;
  // The arrays are a bucket of several: the ordered all-reduce is never fused with others. Has the
  // same value on all ranks.
  bool is_bucket = false;
  std::vector<int64_t> received_splits;

  const Request& request() const { return asked->terms; }
};
using OperationRef = IntrusivePtr<Operation>;

// Notifies the owners of operations; null entries and those without an owner are skipped.
void notify(std::span<const OperationRef> operations, const std::exception_ptr& error);
// Returns a communicator error, or std::bad_alloc if there is no memory for the text.
std::exception_ptr communicator_error(const char* text) noexcept;

// Returns the GPU of an array for the terms of a request; -1 if it is in host memory.
int32_t gpu_number(Device device);

// Returns the text of an error without its source locations, which mean nothing on other ranks.
std::string cause_text(std::string text);
// Returns a request that says that this rank cannot make the call because of `cause`; the other
// ranks get the cause.
RequestRef refused(const Request& request, const std::exception_ptr& cause);

}  // namespace mxlite::jobs
