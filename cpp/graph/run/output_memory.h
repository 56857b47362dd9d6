// Memory of an executable's outputs on a GPU. A block is reused once the caller has dropped
// the arrays on it, so that addresses repeat and recorded graphs stay valid. Values that are saved
// for backward lie in one block, which is chosen when the task runs: two blocks take turns if the
// saved values of the run before are still held.
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
  // Returns memory of saved values, always requested with the same number of bytes.
  StorageRef take_saved(size_t bytes, Device device);
  // Frees unused blocks of this object, or of all objects (memory has run out).
  void release();
  static void release_all();

 private:
  std::mutex mutex_;
  using Blocks = std::vector<StorageRef>;

  std::vector<Blocks> blocks_;  // guarded by mutex_; by slot
  Blocks saved_;                // guarded by mutex_
};

}  // namespace mxlite::graph
