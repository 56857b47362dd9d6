// Memory of an executable's outputs on a GPU. A block is reused once the caller has dropped
// the arrays on it, so that addresses repeat and recorded graphs stay valid.
#pragma once
#include <mutex>
#include <vector>

#include "cpp/ndarray/ndarray.h"

namespace mxlite::graph {

class OutputMemory {
 public:
  OutputMemory();
  ~OutputMemory();
  OutputMemory(const OutputMemory&) = delete;
  OutputMemory& operator=(const OutputMemory&) = delete;

  // Returns an array of output slot `slot`, always requested with the same spec. Thread-safe.
  NDArrayRef take(size_t slot, const TensorSpec& spec, Device device);
  // Frees unused blocks of this object, or of all objects (memory has run out).
  void release();
  static void release_all();

 private:
  std::mutex mutex_;
  std::vector<std::vector<StorageRef>> blocks_;  // guarded by mutex_; by slot
};

}  // namespace mxlite::graph
