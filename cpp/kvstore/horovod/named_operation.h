// One collective of this rank, from submit until its owner is told.
#pragma once
#include <cstdint>
#include <exception>
#include <vector>

#include "cpp/kvstore/horovod/request.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite::horovod {

// Lives until it has been told of all its operations.
class OperationOwner {
 public:
  // So many operations have ended, all by this error or (null) with success. Mostly on the comm
  // thread.
  virtual void told(size_t operations, std::exception_ptr error) = 0;

 protected:
  ~OperationOwner() = default;
};

// Arrays are contiguous, in host memory, and free to be read or written.
struct NamedOperation : RefCounted {
  RequestRef asked;
  // Position among the calls that all ranks make in the same order (OrderedCalls); 0: the ranks
  // call in any order and find each other by name.
  uint64_t number = 0;
  OperationOwner* owner = nullptr;  // null: nobody, or it has been told
  NDArrayRef input;
  NDArrayRef output;    // of allreduce and broadcast; the executor makes those of the others
  int set_number = -1;  // of a new process set
  // In place: comes behind one of the same name, where another operation would be refused. The next
  // step's gradient may be a new array, which no dependency orders behind the last one's.
  bool queues = false;
  std::vector<int64_t> received_splits;

  const Request& request() const { return asked->terms; }
};
using OperationRef = IntrusivePtr<NamedOperation>;

}  // namespace mxlite::horovod
