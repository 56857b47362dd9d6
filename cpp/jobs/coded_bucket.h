// Buckets of gradients that are sent with few bits per value; see cpp/kvstore/store/compression.h.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/engine/task.h"
#include "cpp/kvstore/comm/bucket.h"
#include "cpp/kvstore/store/compression.h"

namespace mxlite::jobs {

// Takes float32 gradients on the CPU; null gradients are skipped. Every rank receives the words of
// all ranks and adds up their values itself.
class CodedBucket {
 public:
  CodedBucket(std::span<const NDArrayRef> arrays, const std::string& type, double threshold);

  // Returns whether the arrays have the shapes of the bucket, in float32 on the CPU.
  bool fits(std::span<const NDArrayRef> arrays) const;
  // Encodes arrays as words; residuals keep the rounding errors for the next call.
  void take(std::span<const NDArrayRef> arrays, std::span<const NDArrayRef> residuals);
  // Sends the words of the parts first to last - 1 to all ranks of a process set.
  void reduce(size_t first, size_t last, const std::string& name, int32_t set,
              engine::Origin origin);
  // Overwrites arrays with the sums of the words that were received last.
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
