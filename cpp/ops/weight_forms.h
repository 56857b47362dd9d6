// Limits the packed forms of weights that planned kernels may ask for on the calling thread.
#pragma once

namespace mxlite {

// While one with `on` exists, forms that are larger than the weight itself are not used: the
// network sees many input shapes, and each shape may need another form.
class CompactWeights {
 public:
  explicit CompactWeights(bool on);
  ~CompactWeights();
  CompactWeights(const CompactWeights&) = delete;
  CompactWeights& operator=(const CompactWeights&) = delete;

  static bool wanted();

 private:
  const bool before_;
};

}  // namespace mxlite
