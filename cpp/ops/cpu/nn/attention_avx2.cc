// Dot-product attention with AVX2 vectors, which every supported processor has.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpp/ops/cpu/nn/attention_blocks.h"
#include "cpp/ops/cpu/nn/attention_sizes.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/nn/dot_product_attention.h"

#define MX_RNN_WIDE 0
#include "cpp/ops/cpu/nn/rnn_tile.h"
#include "cpp/ops/random/philox_rounds.h"
// The loop headers must follow the other headers, in this order.
// clang-format off
#include "cpp/ops/cpu/nn/attention_tile.h"
#include "cpp/ops/cpu/nn/attention_rows.h"
#include "cpp/ops/cpu/nn/attention_items.h"
#include "cpp/ops/cpu/nn/attention_forward_loop.h"
#include "cpp/ops/cpu/nn/attention_backward_loop.h"
#include "cpp/ops/cpu/nn/attention_run.h"
// clang-format on

namespace mxlite::cpu::avx2 {

void attention_forward(const AttentionCall& c, const AttentionPlan& plan, float* scratch) {
  run_forward<AttentionForward<float>>(c, plan, scratch);
}
void attention_forward(const AttentionCall& c, const AttentionPlan& plan, double* scratch) {
  run_forward<AttentionForward<double>>(c, plan, scratch);
}
void attention_backward(const AttentionCall& c, const AttentionPlan& plan, float* scratch) {
  run_backward<AttentionBackward<float>>(c, plan, scratch);
}
void attention_backward(const AttentionCall& c, const AttentionPlan& plan, double* scratch) {
  run_backward<AttentionBackward<double>>(c, plan, scratch);
}

}  // namespace mxlite::cpu::avx2
