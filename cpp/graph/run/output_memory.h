// Memory of an executable's outputs on a GPU. A block is reused once the caller has dropped its
// arrays, so that addresses repeat and recorded graphs stay valid. Values that are saved for
// backward lie in one block, which is chosen when the task runs. If the saved values of the
// previous run are still alive at that time, two blocks alternate.
#pragma once
#include <mutex>
#include <vector>

#include "cpp/ndarray/ndarray.h"

namespace mxlite::graph {

class OutputMemory {
 public:
  OutputMemory();
  ~OutputMemory();
  OutputMemory& operator=(OutputMemory&&) = delete;  // neither copied nor moved

  // Returns an array for output slot `slot`. Every call must pass the same spec for a slot.
  // Thread-safe.
  NDArrayRef take(size_t slot, const TensorSpec& spec, Device device);
  // Returns memory for saved values. Every call must pass the same number of bytes.
  StorageRef take_saved(size_t bytes, Device device);
  // Frees unused blocks of this object or, if memory has run out, of all objects.
  void release();
  static void release_all();

 private:
  std::mutex mutex_;
  using Blocks = std::vector<StorageRef>;

  std::vector<Blocks> blocks_;  // guarded by mutex_; indexed by slot
  Blocks saved_;                // guarded by mutex_
};

}  // namespace mxlite::graph
