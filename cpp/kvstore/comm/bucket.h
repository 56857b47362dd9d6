// Arrays of one dtype that are stored next to each other in one block of memory, so that one
// collective processes all arrays.
#pragma once
#include <span>
#include <vector>

#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Every part is an array with its own storage, so that engine tasks depend on parts and not on the
// whole bucket. The memory exists as long as any part.
class Bucket {
 public:
  // Returns the number of elements that parts of these shapes need.
  static int64_t elements_for(DType dtype, std::span<const Shape> shapes);

  // `memory` is a contiguous vector of elements_for(...) zeros that no engine task uses.
  Bucket(const NDArrayRef& memory, std::span<const Shape> shapes);

  const std::vector<NDArrayRef>& parts() const { return parts_; }
  // Returns the parts first to last - 1 as one vector, including the zeros between them. Tasks that
  // use the vector must depend on the variables of all parts of the bucket and not on the vector's
  // own variable, because collectives may move the pages of the memory.
  NDArrayRef range(size_t first, size_t last) const;

 private:
  StorageRef memory_;
  DType dtype_;
  std::vector<NDArrayRef> parts_;
  std::vector<int64_t> begins_;  // first element of each part, then the end of the last part
};

}  // namespace mxlite
