// One step of the recurrent cells for all units of a layer and direction. The matrix products have
// been computed before.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/rnn.h"

namespace mxlite::cuda {

// Parameters that all steps of a layer and direction share. Memory has type `dtype`; a row of gates
// is (gates, hidden), like the weights' rows.
struct RnnLayer {
  RnnMode mode;
  DType dtype, lengths_dtype;
  int64_t batch, hidden, out;
  const void *bias_input, *bias_hidden;
  const void* lengths;  // null if all samples have all steps
  bool clips, clip_nan;
  double clip_min, clip_max;
};

struct RnnForwardStep {
  int64_t step;         // time step
  void* gates;          // on entry, the input's products; on return, the gates after activation
  const void* product;  // weights times the previous state
  const void *state_before, *cell_before;
  void *state, *cell, *recurrent;
  void* inner;  // with a projection, receives its input instead of `state`
};
void rnn_forward_step(KernelContext& ctx, const RnnLayer& layer, const RnnForwardStep& step);

// Within a sample's length, copies `projected`, if given, to `state`; beyond the length, restores
// the state before the step. Also writes the output, which is zero beyond the length.
struct RnnStore {
  int64_t step;
  const void *projected, *state_before;
  void *state, *output;
  int64_t output_stride;
};
void rnn_store(KernelContext& ctx, const RnnLayer& layer, const RnnStore& store);

// Gradient of a step's output: the sum of the gradients from the layer above and from the next
// step. Beyond a sample's length, the whole gradient passes to the previous step.
struct RnnOutputGrad {
  int64_t step;
  const void* output_grad;
  int64_t output_stride;
  void* state_grad;  // on entry, from the next step; on return, the part that does not pass through
                     // the cell
  void* active;      // gradient of the cell's output: 0 beyond a sample's length
};
void rnn_output_grad(KernelContext& ctx, const RnnLayer& layer, const RnnOutputGrad& grad);

struct RnnBackwardStep {
  int64_t step;
  const void *gates, *recurrent;
  const void *state_before, *cell_before, *cell;
  const void* inner_grad;  // gradient of the cell's output
  void* cell_grad;         // on entry, from the next step; on return, for the previous step
  void* state_grad;        // the cell of gru adds the part that does not pass through the weights
  void *input_grads, *hidden_grads;  // gradients before activation; the two differ only for gru
};
void rnn_backward_step(KernelContext& ctx, const RnnLayer& layer, const RnnBackwardStep& step);

// Sums of the columns of gradients (rows, columns), which may lie in the call's scratch memory.
void rnn_bias_grad(KernelContext& ctx, DType dtype, const void* grads, int64_t rows,
                   int64_t columns, void* to);

// Dropout between layers: draws the mask and applies it, or applies it to gradients.
void rnn_drop(KernelContext& ctx, DType dtype, void* values, uint8_t* mask, int64_t count, float p,
              int64_t layer);
void rnn_undrop(KernelContext& ctx, DType dtype, void* values, const uint8_t* mask, int64_t count,
                float p);

}  // namespace mxlite::cuda
