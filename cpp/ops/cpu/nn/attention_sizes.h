// Sizes of the blocks of attention_blocks.h, which planning and loops share.
#pragma once
#include <algorithm>

#include "cpp/ops/cpu/nn/attention_blocks.h"

namespace mxlite::cpu {

template <class T>
struct AttentionSizes {
  static constexpr int64_t kLanes = 64 / sizeof(T);
  static constexpr int64_t kStrip = 4 * kLanes;  // columns of a packed strip
  static constexpr int64_t kRows = 96;           // most queries of a block
  static constexpr int64_t kKeys = 256;          // keys of a block, a multiple of kStrip

  static constexpr int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

  int64_t rows, d, dv, d_pad, dv_pad, k_pad;
  AttentionSizes(const AttentionCall& c, int64_t block_rows)
      : rows(block_rows),
        d(c.d),
        dv(c.dv),
        d_pad(padded(c.d)),
        dv_pad(padded(c.dv)),
        k_pad(padded(c.k_length)) {}

  // Elements of the arrays, all multiples of 64 bytes.
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

}  // namespace mxlite::cpu
