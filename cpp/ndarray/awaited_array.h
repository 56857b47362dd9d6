// Arrays whose values the program sets later. Tasks that read such an array may be pushed before
// its value is set.
#pragma once
#include <string>

#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// An array in host memory and the task that will write it. give() copies another array's values,
// and fail() sets an error. If neither is called within `seconds`, the array fails. Any thread may
// call the methods. Calls after the first value or error have no effect.
class AwaitedArray {
 public:
  // `who` is the prefix of error texts. Throws a not-supported error if the engine runs tasks in
  // the caller, because tasks then cannot wait for the value.
  AwaitedArray(const TensorSpec& spec, const std::string& who, double seconds);
  ~AwaitedArray();  // without a value, the array fails with the text of `expect`
  AwaitedArray& operator=(AwaitedArray&&) = delete;  // neither copied nor moved

  const NDArrayRef& array() const { return array_; }
  // Copies `value`, which has the same shape and dtype, once it is computed. If the computation of
  // `value` fails, this array also fails.
  void give(const NDArrayRef& value);
  void fail(const std::string& reason);
  // Sets the error text for the case that the array gets no value in time.
  void expect(const std::string& missing);
  // Returns whether a value was given or the array has failed.
  bool over() const;

 private:
  class Task;
  const std::string who_;
  NDArrayRef array_;
  IntrusivePtr<Task> task_;
  bool given_ = false;  // used only by the thread that calls give()
};

}  // namespace mxlite
