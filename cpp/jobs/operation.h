// One collective operation of this rank. The object exists from submission until its owner is
// notified.
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

// An owner must exist until all of its operations have been reported to notify.
class OperationOwner {
 public:
  // Reports that `count` operations have ended with `error`, or successfully if `error` is null.
  // Mostly called on the comm thread.
  virtual void notify(size_t operations, std::exception_ptr error) = 0;

 protected:
  ~OperationOwner() = default;
};

// Arrays must be contiguous, already computed, and in the memory that the request names: host
// memory or the GPU of the job. The owner permits reads and writes until it is notified. GPU memory
// that has never been written must have been allocated for StreamKind::kCopyIn unless
// fresh_in_compute is set.
struct Operation : RefCounted {
  RequestRef asked;
  // Position among the calls that all ranks make in the same order (OrderedCalls). The value 0
  // means that ranks may submit in any order and match operations by name.
  uint64_t number = 0;
  CallChannel channel;              // Each channel numbers its ordered calls separately.
  OperationOwner* owner = nullptr;  // null if it does not exist or has been notified
  NDArrayRef input;                 // null in a receive operation
  NDArrayRef output;                // set for allreduce, broadcast and calls of operators; other
                                    // operations allocate it
  int set_number = -1;              // number of a new process set
  // If an operation of the same name is pending, this operation waits for it and is not refused.
  // In-place operations need this, because the gradient of the next step may be a new array that
  // does not depend on the pending operation.
  bool queues = false;
  // The memory of an array was allocated for StreamKind::kCompute and has not been written, so the
  // collective waits for that stream.
  bool fresh_in_compute = false;
  // The arrays form a bucket. Its ordered all-reduce is not fused with other calls. The value is
  // equal on all ranks.
  bool is_bucket = false;
  std::vector<int64_t> received_splits;

  const Request& request() const { return asked->terms; }
};
using OperationRef = IntrusivePtr<Operation>;

// Notifies the owners of operations. Skips null entries and operations without an owner.
void notify(std::span<const OperationRef> operations, const std::exception_ptr& error);
// Returns a communicator error, or std::bad_alloc if memory for the text is missing.
std::exception_ptr communicator_error(const char* text) noexcept;

// Returns the GPU number of an array for its request, or -1 if the array is in host memory.
int32_t gpu_number(Device device);

// Returns the text of an error without its source locations, because these mean nothing on other
// ranks.
std::string cause_text(std::string text);
// Returns a request that tells the other ranks why this rank cannot make the call.
RequestRef refused(const Request& request, const std::exception_ptr& cause);

}  // namespace mxlite::jobs
