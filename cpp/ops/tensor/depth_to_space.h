// depth_to_space and space_to_depth.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct BlockSizeParams {
  int64_t block_size = 1;
  MX_FIELDS(BlockSizeParams,
            MX_REQUIRED_FIELD(block_size, "Height and width of the blocks.").between(1, kMaxSize))
};

}  // namespace mxlite
