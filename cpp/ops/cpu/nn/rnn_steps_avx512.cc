// The step kernels for AVX-512. Nothing here may run unless the processor has it.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpp/ops/cpu/nn/rnn_steps.h"
#include "cpp/ops/pointwise/math.h"

// After the headers that others include too: their inline functions must not get this target.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")
#define MX_RNN_WIDE 1
#include "cpp/ops/cpu/nn/rnn_tile.h"
// The loops need the tile.
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
