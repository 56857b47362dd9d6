// The step kernels for AVX-512. Call only if the processor has AVX-512.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpp/core/parallel.h"
#include "cpp/ops/cpu/nn/rnn_steps.h"
#include "cpp/ops/pointwise/math.h"

// This pragma must follow the headers that other files also include, because inline functions of
// these headers must not be compiled for this target.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")
#define MX_RNN_WIDE 1
#include "cpp/ops/cpu/nn/rnn_tile.h"
// The headers of loops must follow rnn_tile.h.
#include "cpp/ops/cpu/nn/rnn_backward_loop.h"
#include "cpp/ops/cpu/nn/rnn_forward_loop.h"

namespace mxlite::cpu {
namespace avx512 {

void rnn_forward(const RnnForward<float>& layer) { ForwardLoop<float>{layer}.run(); }
void rnn_forward(const RnnForward<double>& layer) { ForwardLoop<double>{layer}.run(); }
void rnn_backward(const RnnBackward<float>& layer) { BackwardLoop<float>{layer}.run(); }
void rnn_backward(const RnnBackward<double>& layer) { BackwardLoop<double>{layer}.run(); }

}  // namespace avx512

}  // namespace mxlite::cpu
