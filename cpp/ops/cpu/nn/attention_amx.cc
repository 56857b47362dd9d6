// Dot-product attention for bfloat16 in tiles of AMX. Call only if the processor has AMX.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpp/ops/cpu/nn/attention_blocks.h"
#include "cpp/ops/cpu/nn/attention_sizes.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/nn/dot_product_attention.h"

// This pragma must follow the headers that other files also include, because inline functions of
// these headers must not be compiled for this target.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,amx-tile,amx-bf16")
#define MX_RNN_WIDE 1
#include "cpp/ops/cpu/nn/rnn_tile.h"
#include "cpp/ops/random/philox_rounds_avx512.h"
// The loop headers must follow the other headers, in this order.
// clang-format off
#include "cpp/ops/cpu/nn/attention_tile.h"
#include "cpp/ops/cpu/nn/attention_rows.h"
#include "cpp/ops/cpu/nn/attention_items.h"
#include "cpp/ops/cpu/nn/attention_bf16_tile.h"
#include "cpp/ops/cpu/nn/attention_bf16_pack.h"
#include "cpp/ops/cpu/nn/attention_bf16_rows.h"
#include "cpp/ops/cpu/nn/attention_bf16_forward_loop.h"
#include "cpp/ops/cpu/nn/attention_bf16_backward_loop.h"
#include "cpp/ops/cpu/nn/attention_run.h"
// clang-format on

namespace mxlite::cpu::amx {

void attention_forward(const AttentionCall& c, const AttentionPlan& plan, float* scratch) {
  run_forward<TileForward>(c, plan, scratch);
}
void attention_backward(const AttentionCall& c, const AttentionPlan& plan, float* scratch) {
  run_backward<TileBackward>(c, plan, scratch);
}

}  // namespace mxlite::cpu::amx
