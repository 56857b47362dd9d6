// Attention products of transformers on interleaved projections. A projection contains the queries,
// keys and values of each head: (length, batch, heads * 3 * d), or heads * 2 * d without queries.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct InterleavedParams {
  int64_t heads = 0;
  MX_FIELDS(InterleavedParams, MX_REQUIRED_FIELD(heads, "Number of heads.").between(1, kMaxSize))
};

}  // namespace mxlite
