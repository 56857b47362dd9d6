// Buckets of gradients that are sent with few bits per value. See cpp/kvstore/store/compression.h.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/engine/task.h"
#include "cpp/kvstore/comm/bucket.h"
#include "cpp/kvstore/store/compression.h"

namespace mxlite::jobs {

// Reduces float32 gradients on the CPU. Skips null gradients. Every rank receives the coded words
// of all ranks, decodes the values and sums them.
class CodedBucket {
 public:
  CodedBucket(std::span<const NDArrayRef> arrays, const std::string& type, double threshold);

  // Returns whether the arrays have the shapes of the bucket and are float32 arrays on the CPU.
  bool fits(std::span<const NDArrayRef> arrays) const;
  // Encodes the arrays as words. Stores the rounding errors in `residuals` for the next call.
  void take(std::span<const NDArrayRef> arrays, std::span<const NDArrayRef> residuals);
  // Sends the compressed words of parts `first` to `last - 1` to all ranks of a process set.
  void reduce(size_t first, size_t last, const std::string& name, int32_t set,
              engine::Origin origin);
  // Overwrites the arrays with the sums of the words that were received last.
  void give(std::span<const NDArrayRef> arrays);

 private:
  // Coded words of all ranks for a range of parts. The words of rank r begin at `r * stride`.
  struct Received {
    NDArrayRef words;  // null before the first call of reduce
    size_t begin = 0, stride = 0, ranks = 0;
  };

  const store::Compression how_;
  std::vector<TensorSpec> specs_;
  std::optional<Bucket> words_;
  std::vector<Received> received_;  // indexed by part
};

}  // namespace mxlite::jobs
