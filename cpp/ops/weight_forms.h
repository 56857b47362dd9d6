// Limits the memory of packed weights that planned kernels may request on the calling thread.
#pragma once

namespace mxlite {

// While an object with `on` exists, packed weights must not be larger than the weight itself: the
// network gets many input shapes, and each shape may need its own packed copy.
class CompactWeights {
 public:
  explicit CompactWeights(bool on);
  ~CompactWeights();
  CompactWeights& operator=(CompactWeights&&) = delete;  // neither copied nor moved

  static bool wanted();

 private:
  const bool before_;
};

}  // namespace mxlite
