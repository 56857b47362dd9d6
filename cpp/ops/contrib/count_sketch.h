// count_sketch hashes vectors of length d into out_dim buckets with signs: out[..., h[i]] += s[i] *
// data[..., i].
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct CountSketchParams {
  int64_t out_dim = 0;
  int64_t processing_batch_size = 32;
  MX_FIELDS(
      CountSketchParams, MX_REQUIRED_FIELD(out_dim, "Number of buckets.").between(1, kMaxSize),
      MX_FIELD(processing_batch_size, "Accepted for compatibility, without effect.").at_least(1))
};

}  // namespace mxlite
