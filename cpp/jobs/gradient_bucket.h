// A bucket holds gradients that one collective sums. mxlite.comm.buckets decides which gradients a
// bucket holds and when the bucket is reduced.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cpp/engine/task.h"
#include "cpp/kvstore/comm/bucket.h"

namespace mxlite::jobs {

std::vector<Shape> shapes_of(std::span<const NDArrayRef> arrays);

// Each position of the bucket is a part of its memory for one array. Null arrays are skipped. An
// array either uses the memory of its part or is copied into it. The array that was taken last owns
// the part.
class GradientBucket {
 public:
  // `memory` and `sums` are vectors of Bucket::elements_for(...) zeros that no task uses. If the
  // sums overwrite the gradients, `memory` and `sums` are the same vector.
  GradientBucket(std::span<const NDArrayRef> arrays, const NDArrayRef& memory,
                 const NDArrayRef& sums);

  // Returns whether the arrays have the shapes, dtypes and devices of the bucket.
  bool fits(std::span<const NDArrayRef> arrays) const;
  // Makes arrays use the memory of their parts. Copies arrays that cannot use this memory.
  void take(std::span<const NDArrayRef> arrays);
  // Sums the parts first to last - 1 over the ranks of a process set.
  void reduce(size_t first, size_t last, const std::string& name, int32_t set, double prescale,
              engine::Origin origin) const;
  // Sums the parts first to last - 1 of the buckets of several GPUs. Each GPU has one bucket.
  static void sum_on_devices(std::span<const GradientBucket* const> buckets, size_t first,
                             size_t last);
  // Copies the sums to the arrays that do not use the memory of the bucket.
  void give(std::span<const NDArrayRef> arrays) const;

  const std::vector<NDArrayRef>& parts() const { return given_.parts(); }
  const std::vector<NDArrayRef>& sums() const { return sums_ ? sums_->parts() : given_.parts(); }

 private:
  Bucket given_;
  std::optional<Bucket> sums_;
  std::vector<std::pair<TensorSpec, Device>> kinds_;  // shapes, dtypes and devices of arrays that
                                                      // fit
  std::vector<NDArrayRef> owners_;  // for each part: the array that uses its memory
};

}  // namespace mxlite::jobs
