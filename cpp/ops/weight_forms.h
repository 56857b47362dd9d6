// Limits the memory of packed weights that planned kernels may request on the calling thread.
#pragma once

namespace mxlite {

// While a CompactWeights with `on` exists, packed weights must not be larger than the weight: a
// network with many input shapes may need a packed copy for each of them.
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
