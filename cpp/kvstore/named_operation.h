// One named collective of this rank, from submit until it is told.
#pragma once
#include <exception>
#include <functional>
#include <vector>

#include "cpp/kvstore/request.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Arrays are contiguous, in host memory, and free to be read or written.
struct NamedOperation : RefCounted {
  Request request;
  NDArrayRef input;
  NDArrayRef output;  // of allreduce and broadcast; the executor makes those of the others
  std::vector<int64_t> received_splits;
  int set_number = -1;  // of a new process set
  // In place: comes behind one of the same name, where another operation would be refused. The next
  // step's gradient may be a new array, which no dependency orders behind the last one's.
  bool queues = false;
  // Once, mostly on the comm thread; null: success.
  std::function<void(std::exception_ptr)> done;
};
using OperationRef = IntrusivePtr<NamedOperation>;

}  // namespace mxlite
