// Products of transformers on interleaved projections: heads' queries, keys and values lie side by
// side, (length, batch, heads * 3 * d) or, for keys and values of an encoder, heads * 2 * d.
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
