// One collective of this rank, from submission until its owner is notified.
#pragma once
#include <cstdint>
#include <exception>
#include <vector>

#include "cpp/kvstore/comm/ordered_calls.h"
#include "cpp/kvstore/horovod/request.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite::horovod {

// Must live until it has been notified of all its operations.
class OperationOwner {
 public:
  // Notifies that `count` operations have ended, all with this error, or with success if it is
  // null. Called mostly on the comm thread.
  virtual void notify(size_t operations, std::exception_ptr error) = 0;

 protected:
  ~OperationOwner() = default;
};

// Arrays are contiguous, computed, and in the memory that the request says: that of the host, or of
// the GPU that the session uses. They may be read and written: memory of a GPU that nothing has
// written yet must have been allocated for StreamKind::kCopyIn, unless fresh_in_compute is set.
struct NamedOperation : RefCounted {
  RequestRef asked;
  // Position among the calls that all ranks make in the same order (OrderedCalls); 0: the ranks
  // call in any order and find each other by name.
  uint64_t number = 0;
  CallChannel channel;              // Numbers of ordered calls count in it.
  OperationOwner* owner = nullptr;  // null: none, or already notified
  NDArrayRef input;                 // null: for a received message
  NDArrayRef output;    // given for allreduce, broadcast and calls of operators; others allocate it
  int set_number = -1;  // number of a new process set
  // In place: may be queued after one of the same name, where others are refused, because no
  // dependency orders the next step's gradient, which may be a new array, after the last step's.
  bool queues = false;
  // Nothing has written an array whose memory was allocated for StreamKind::kCompute: the
  // collective waits for that stream.
  bool fresh_in_compute = false;
  // Holds several arrays already: an ordered all-reduce that is never fused with others. The same
  // on all ranks.
  bool is_bucket = false;
  std::vector<int64_t> received_splits;

  const Request& request() const { return asked->terms; }
};
using OperationRef = IntrusivePtr<NamedOperation>;

}  // namespace mxlite::horovod
