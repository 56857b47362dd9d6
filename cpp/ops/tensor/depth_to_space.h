// depth_to_space and space_to_depth.
#pragma once
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct BlockSizeParams {
  int64_t block_size = 1;
  static constexpr auto fields() {
    return std::tuple(required_field("block_size", &BlockSizeParams::block_size,
                                     "Height and width of the blocks.")
                          .between(1, kMaxSize));
  }
};

}  // namespace mxlite
