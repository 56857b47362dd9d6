// Buckets of gradients that travel as few bits for each value; see cpp/kvstore/store/compression.h.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/engine/task.h"
#include "cpp/kvstore/comm/bucket.h"
#include "cpp/kvstore/store/compression.h"

namespace mxlite::jobs {

// Gradients in float32 on the CPU; null: left out. Every rank gets the words of all ranks and adds
// them up itself.
class CodedBucket {
 public:
  CodedBucket(std::span<const NDArrayRef> arrays, const std::string& type, double threshold);

  // Returns whether the arrays have the shapes of the bucket, in float32 on the CPU.
  bool fits(std::span<const NDArrayRef> arrays) const;
  // Rounds arrays to words; residuals keep what is rounded away.
  void take(std::span<const NDArrayRef> arrays, std::span<const NDArrayRef> residuals);
  // Sends the words of the parts first to last - 1 to all ranks of a process set.
  void reduce(size_t first, size_t last, const std::string& name, int32_t set,
              engine::Origin origin);
  // Overwrites arrays by the sums of what was received last.
  void give(std::span<const NDArrayRef> arrays);

 private:
  // Words of all ranks for some parts: rank r's begin at r * stride.
  struct Received {
    NDArrayRef words;  // null: none yet
    size_t begin = 0, stride = 0, ranks = 0;
  };

  const store::Compression how_;
  std::vector<TensorSpec> specs_;
  std::optional<Bucket> words_;
  std::vector<Received> received_;  // by part
};

}  // namespace mxlite::jobs
