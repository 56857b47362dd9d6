// Sizes of the blocks of attention_blocks.h, used by the plans and the loops.
#pragma once
#include <algorithm>

#include "cpp/ops/cpu/nn/attention_blocks.h"

namespace mxlite::cpu {

template <class T>
struct AttentionSizes {
  static constexpr int64_t kLanes = 64 / sizeof(T);
  static constexpr int64_t kStrip = 4 * kLanes;  // columns of a packed strip
  static constexpr int64_t kRows = 96;           // maximum number of queries per block
  static constexpr int64_t kKeys = 256;          // keys per block, a multiple of kStrip

  static constexpr int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

  int64_t rows, d, dv, d_pad, dv_pad, k_pad;
  AttentionSizes(const AttentionCall& c, int64_t block_rows)
      : rows(block_rows),
        d(c.d),
        dv(c.dv),
        d_pad(padded(c.d)),
        dv_pad(padded(c.dv)),
        k_pad(padded(c.k_length)) {}

  // Numbers of elements of the arrays; their sizes are multiples of 64 bytes.
  int64_t query_rows() const { return padded(rows * d); }
  int64_t value_rows() const { return padded(rows * dv); }
  int64_t scores() const { return rows * kKeys; }
  int64_t row_values() const { return padded(rows); }
  int64_t loaded_rows() const { return kStrip * std::max(d, dv); }

  int64_t forward() const {
    return k_pad * d + k_pad * dv_pad + query_rows() + scores() + rows * dv_pad + 2 * row_values() +
           loaded_rows();
  }
  int64_t key_grads() const { return k_pad * (d_pad + dv_pad); }
  int64_t backward() const {
    return k_pad * (d + dv + d_pad) + query_rows() + value_rows() + 2 * scores() +
           rows * (2 * d_pad + dv_pad) + 2 * row_values() + loaded_rows();
  }
};

// Sizes for bfloat16 products with float32 sums. Everything is padded to whole tiles: 16 rows or
// columns, and 32 products per sum.
template <>
struct AttentionSizes<bfloat16> {
  static constexpr int64_t kTile = 16, kDepth = 32;
  static constexpr int64_t kForwardRows = 32, kBackwardRows = 128;   // maximum number of queries
                                                                     // per block
  static constexpr int64_t kForwardKeys = 256, kBackwardKeys = 128;  // keys per block
  // Distance of rows of scores in elements. The distance is not a multiple of a page, because such
  // rows would share few cache sets.
  static constexpr int64_t kForwardStride = kForwardKeys + kTile;
  static constexpr int64_t kBackwardStride = kBackwardKeys + kTile;

  static constexpr int64_t padded(int64_t n) { return (n + kDepth - 1) / kDepth * kDepth; }
  static constexpr int64_t tiles(int64_t n) { return (n + kTile - 1) / kTile; }

  int64_t rows, d, dv, k;  // padded sizes
  AttentionSizes(const AttentionCall& c, int64_t block_rows)
      : rows(padded(block_rows)), d(padded(c.d)), dv(padded(c.dv)), k(padded(c.k_length)) {}

  // Number of rows that are copied because their elements are not adjacent in memory.
  int64_t loaded_rows() const { return kTile * std::max(d, dv); }

  int64_t forward_bytes() const {
    const int64_t halves = k * (d + dv) + rows * d + loaded_rows();
    const int64_t floats = rows * (kForwardStride + dv + 2);
    return 2 * halves + 4 * floats;
  }
  int64_t key_grads() const { return k * (d + dv); }
  int64_t backward_bytes() const {
    const int64_t halves =
        k * (2 * d + dv) + 2 * rows * (d + dv) + 2 * rows * kBackwardKeys + loaded_rows();
    const int64_t floats = rows * (2 * kBackwardStride + d + 2);
    return 2 * halves + 4 * floats;
  }
};

}  // namespace mxlite::cpu
