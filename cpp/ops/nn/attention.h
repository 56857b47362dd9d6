// Attention products of transformers on interleaved projections. The projection has the queries,
// keys and values of each head: (length, batch, heads * 3 * d), or heads * 2 * d without queries.
#pragma once
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct InterleavedParams {
  int64_t heads = 0;
  static constexpr auto fields() {
    return std::tuple(required_field("heads", &InterleavedParams::heads, "Number of heads.")
                          .between(1, kMaxSize));
  }
};

}  // namespace mxlite
