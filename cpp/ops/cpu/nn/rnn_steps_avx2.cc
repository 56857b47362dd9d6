// The step kernels for AVX2, and the choice between AVX2 and AVX-512.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpp/core/parallel.h"
#include "cpp/ops/cpu/nn/rnn_steps.h"
#include "cpp/ops/cpu/processor.h"
#include "cpp/ops/pointwise/math.h"
#define MX_RNN_WIDE 0
#include "cpp/ops/cpu/nn/rnn_tile.h"
// The headers of loops must follow rnn_tile.h.
#include "cpp/ops/cpu/nn/rnn_backward_loop.h"
#include "cpp/ops/cpu/nn/rnn_forward_loop.h"

namespace mxlite::cpu {
namespace avx2 {

void rnn_forward(const RnnForward<float>& layer) { ForwardLoop<float>{layer}.run(); }
void rnn_forward(const RnnForward<double>& layer) { ForwardLoop<double>{layer}.run(); }
void rnn_backward(const RnnBackward<float>& layer) { BackwardLoop<float>{layer}.run(); }
void rnn_backward(const RnnBackward<double>& layer) { BackwardLoop<double>{layer}.run(); }

}  // namespace avx2

template <class T>
void rnn_forward(const RnnForward<T>& layer) {
  has_avx512() ? avx512::rnn_forward(layer) : avx2::rnn_forward(layer);
}
template <class T>
void rnn_backward(const RnnBackward<T>& layer) {
  has_avx512() ? avx512::rnn_backward(layer) : avx2::rnn_backward(layer);
}
template void rnn_forward(const RnnForward<float>&);
template void rnn_forward(const RnnForward<double>&);
template void rnn_backward(const RnnBackward<float>&);
template void rnn_backward(const RnnBackward<double>&);

}  // namespace mxlite::cpu
