// The steps of one recurrent layer in one direction. Each step depends on the previous step, so all
// threads work on the same step and synchronize at a barrier after it. Each thread owns blocks of
// hidden units, whose packed weights stay in its cache. Slots hold the state before each step.
#pragma once
#include <cstdint>

#include "cpp/ops/nn/rnn.h"

namespace mxlite::cpu {

struct RnnClip {
  bool active = false, nan = false;
  double low = 0, high = 0;
};

// Shared by forward and backward. Rows of per-step arrays are step * batch + sample.
template <class T>
struct RnnLayer {
  RnnSizes sizes;
  RnnBlocks blocks;
  RnnClip clip;
  int64_t inputs = 0;  // length of a data row
  bool reverse = false;
  int threads = 1;
  const int64_t* lengths = nullptr;  // [batch]; null if all sequences have all steps
  const T* weight_hidden = nullptr;  // (gates * hidden, out)
  const T* weight_out = nullptr;     // (projection, hidden) or null
};

template <class T>
struct RnnForward : RnnLayer<T> {
  const T* data = nullptr;          // [rows][inputs]
  const T* weight_input = nullptr;  // (gates * hidden, inputs)
  const T* bias_input = nullptr;    // [gates * hidden]
  const T* bias_hidden = nullptr;
  const T* first_hidden = nullptr;  // [batch][out]
  const T* first_cell = nullptr;    // [batch][hidden], lstm
  int64_t chunk = 1;  // number of steps whose input products are computed together, so that they
                      // are still in the cache when used
  // With `save`, these are the arrays of RnnReserve. Otherwise they are scratch memory: the gates
  // of one chunk, two slots, and one row of `inner` per sample.
  bool save = false;
  T *gates = nullptr, *hidden_slots = nullptr, *cell_slots = nullptr;
  T *recurrent = nullptr, *inner = nullptr;
  T* packed = nullptr;  // rnn_forward_packed(...) elements
  T* output = nullptr;  // row r at output + r * output_stride
  int64_t output_stride = 0;
  T *last_hidden = nullptr, *last_cell = nullptr;  // [batch][out], [batch][hidden]
};

template <class T>
struct RnnBackward : RnnLayer<T> {
  const T *gates = nullptr, *hidden_slots = nullptr, *cell_slots = nullptr, *recurrent = nullptr;
  const T* output_grad = nullptr;  // row r at output_grad + r * output_stride
  int64_t output_stride = 0;
  const T *last_hidden_grad = nullptr, *last_cell_grad = nullptr;
  T *first_hidden_grad = nullptr, *first_cell_grad = nullptr;
  // Gradients of the gates before activation, [rows][gate_stride()]. The order for gru is n of the
  // input, r, z, n of the state. So the gates of the input and the gates of the state are
  // contiguous, but the input's gates are not in the order of the weight.
  T* gate_grads = nullptr;
  T* out_grads = nullptr;    // [rows][out_pad], projection: gradient of its output
  T* hidden_grad = nullptr;  // [batch][out_pad], carried from step to step
  T* cell_grad = nullptr;    // [batch][hidden_pad]
  T* packed = nullptr;       // rnn_backward_packed(...) elements

  int64_t gate_stride() const {
    return (this->sizes.mode == RnnMode::kGru ? 4 : this->sizes.gates) * this->sizes.hidden;
  }
  int64_t hidden_side() const {  // returns the offset of the gates that weight_hidden produced
    return this->sizes.mode == RnnMode::kGru ? this->sizes.hidden : 0;
  }
};

inline int64_t rnn_forward_packed(const RnnSizes& s, const RnnBlocks& b, int64_t inputs) {
  return b.blocks * b.width * (inputs + s.out()) + (s.projection ? b.out_pad * s.hidden : 0);
}
inline int64_t rnn_backward_packed(const RnnSizes& s, const RnnBlocks& b) {
  return b.out_pad * s.gates * s.hidden + (s.projection ? b.hidden_pad * s.projection : 0);
}

// The functions exist for float and double and use the widest vectors of this processor.
template <class T>
void rnn_forward(const RnnForward<T>& layer);
template <class T>
void rnn_backward(const RnnBackward<T>& layer);

namespace avx2 {
void rnn_forward(const RnnForward<float>& layer);
void rnn_forward(const RnnForward<double>& layer);
void rnn_backward(const RnnBackward<float>& layer);
void rnn_backward(const RnnBackward<double>& layer);
}  // namespace avx2
namespace avx512 {
void rnn_forward(const RnnForward<float>& layer);
void rnn_forward(const RnnForward<double>& layer);
void rnn_backward(const RnnBackward<float>& layer);
void rnn_backward(const RnnBackward<double>& layer);
}  // namespace avx512

}  // namespace mxlite::cpu
