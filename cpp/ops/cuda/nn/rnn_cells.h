// One step of the recurrent cells for all units of a layer and direction; products are made before.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/rnn.h"

namespace mxlite::cuda {

// Parameters that all steps of a layer and direction share. Memory holds `dtype`; a row of gates is
// (gates, hidden), as the weights' rows.
struct RnnLayer {
  RnnMode mode;
  DType dtype, lengths_dtype;
  int64_t batch, hidden, out;
  const void *bias_input, *bias_hidden;
  const void* lengths;  // null: all steps count
  bool clips, clip_nan;
  double clip_min, clip_max;
};

struct RnnForwardStep {
  int64_t step;         // time step
  void* gates;          // in: the input's products; out: after their activation
  const void* product;  // weights times the previous state
  const void *state_before, *cell_before;
  void *state, *cell, *recurrent;
  void* inner;  // with a projection: its input, instead of state
};
void rnn_forward_step(KernelContext& ctx, const RnnLayer& layer, const RnnForwardStep& step);

// Within a sample's length, `state` becomes `projected` if that is given; beyond it, the state
// before the step. Also writes the output: zeros beyond the length.
struct RnnStore {
  int64_t step;
  const void *projected, *state_before;
  void *state, *output;
  int64_t output_stride;
};
void rnn_store(KernelContext& ctx, const RnnLayer& layer, const RnnStore& store);

// The gradient of a step's output: from the layer above and from the next step. Beyond a sample's
// length, all of it passes to the previous step.
struct RnnOutputGrad {
  int64_t step;
  const void* output_grad;
  int64_t output_stride;
  void* state_grad;  // in: from the next step; out: what does not pass through the cell
  void* active;      // Active steps of each sample.
};
void rnn_output_grad(KernelContext& ctx, const RnnLayer& layer, const RnnOutputGrad& grad);

struct RnnBackwardStep {
  int64_t step;
  const void *gates, *recurrent;
  const void *state_before, *cell_before, *cell;
  const void* inner_grad;            // gradient of the cell's output
  void* cell_grad;                   // in: from the next step; out: for the step before
  void* state_grad;                  // gru adds what does not pass through the weights
  void *input_grads, *hidden_grads;  // gradients before activation; equal except for gru
};
void rnn_backward_step(KernelContext& ctx, const RnnLayer& layer, const RnnBackwardStep& step);

// Sums of the columns of gradients (rows, columns), which may lie in the call's scratch memory.
void rnn_bias_grad(KernelContext& ctx, DType dtype, const void* grads, int64_t rows,
                   int64_t columns, void* to);

// Between layers: draws mask and applies it, or applies it to gradients.
void rnn_drop(KernelContext& ctx, DType dtype, void* values, uint8_t* mask, int64_t count, float p,
              int64_t layer);
void rnn_undrop(KernelContext& ctx, DType dtype, void* values, const uint8_t* mask, int64_t count,
                float p);

}  // namespace mxlite::cuda
