// count_sketch hashes vectors of length d into out_dim buckets with signs: out[..., h[i]] += s[i] *
// data[..., i].
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct CountSketchParams {
  int64_t out_dim = 0;
  int64_t processing_batch_size = 32;
  MX_FIELDS(CountSketchParams,
            MX_REQUIRED_FIELD(out_dim, "Size of the output's last axis; entries of h are below it.")
                .between(1, kMaxSize),
            MX_FIELD(processing_batch_size,
                     "Has no effect; accepted for compatibility with MXNet 1.x.")
                .at_least(1))
};

}  // namespace mxlite
