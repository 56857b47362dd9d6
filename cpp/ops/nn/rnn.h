// RNN: stacked recurrent layers over whole sequences, data (steps, batch, inputs). The parameter
// vector has all weights by layer and direction (input, hidden, projection), then all biases in the
// same order. Gates are i, f, g, o for lstm and r, z, n for gru. The reset gate of gru multiplies
// the product: n = tanh(Wx + b + r * (Rh + b)).
#pragma once
#include <optional>

#include "cpp/ops/attr.h"

namespace mxlite {

enum class RnnMode : uint8_t { kRelu, kTanh, kLstm, kGru };
MX_ENUM_NAMES(RnnMode, {"rnn_relu", E::kRelu}, {"rnn_tanh", E::kTanh}, {"lstm", E::kLstm},
              {"gru", E::kGru})

// Inputs: data, parameters, state, then state_cell (lstm) and sequence_length
// (use_sequence_length). Outputs: output, state, cell state (lstm) and, hidden, the reserve with
// values for backward (written in training).
struct RnnParams {
  int64_t state_size = 0;
  int64_t num_layers = 0;
  bool bidirectional = false;
  RnnMode mode = RnnMode::kLstm;
  float p = 0;
  bool state_outputs = false;
  std::optional<int64_t> projection_size;
  std::optional<double> lstm_state_clip_min, lstm_state_clip_max;
  bool lstm_state_clip_nan = false;
  bool use_sequence_length = false;

  MX_FIELDS(
      RnnParams, MX_REQUIRED_FIELD(state_size, "Size of the hidden state.").between(1, kMaxSize),
      MX_REQUIRED_FIELD(num_layers, "Number of stacked layers.").between(1, 65536),
      MX_FIELD(bidirectional,
               "Whether each layer also runs over the reversed sequence and joins both outputs."),
      MX_REQUIRED_FIELD(mode, "Recurrent cell: vanilla with relu or tanh, LSTM or GRU."),
      MX_FIELD(p, "Probability that an element between two layers is set to 0 in training.")
          .at_least(0)
          .below(1),
      MX_FIELD(state_outputs, "Whether to also return the states after the last step."),
      MX_FIELD(projection_size,
               "Size that a linear layer projects each lstm output to; None: no projection.")
          .between(1, kMaxSize),
      MX_FIELD(lstm_state_clip_min, "Lower bound of lstm cell states; None: no bound."),
      MX_FIELD(lstm_state_clip_max, "Upper bound of lstm cell states; None: no bound."),
      MX_FIELD(lstm_state_clip_nan, "Whether clipping replaces NaN by lstm_state_clip_min."),
      MX_FIELD(
          use_sequence_length,
          "Whether sequence_length, of shape (batch,), is given; outputs of steps after it are 0."))
  bool is_lstm() const { return mode == RnnMode::kLstm; }
  bool clips() const { return lstm_state_clip_min && lstm_state_clip_max; }
};

// `_rnn_backward(output_grad, state_grad, [cell_grad], data, parameters, state, [state_cell],
// [sequence_length], reserve)` -> gradients of data, parameters, state and state_cell. Gradients
// that are not requested have shape (0,).
struct RnnGradParams : RnnParams {
  bool has_reserve = true;  // false if forward ran without training, so its values must be
                            // recomputed
  bool data_grad = true, parameters_grad = true;
  MX_FIELDS(RnnGradParams, RnnParams::fields(),
            MX_FIELD(has_reserve, "The last input was written by forward."),
            MX_FIELD(data_grad, "Compute the gradient of data."),
            MX_FIELD(parameters_grad, "Compute the gradient of parameters."))
};

// Sizes and memory layout of one call.
struct RnnSizes {
  RnnMode mode;
  int64_t steps, batch, input, hidden, projection, layers, directions, gates;
  bool dropout;

  RnnSizes(const RnnParams& p, const Shape& data);

  int64_t out() const { return projection ? projection : hidden; }
  int64_t rows() const { return steps * batch; }
  int64_t layer_input(int64_t layer) const { return layer == 0 ? input : directions * out(); }

  // Return offsets, in elements, in the parameter vector; d is the direction.
  int64_t weight_offset(int64_t layer, int64_t d) const;  // weights of input, hidden state and
                                                          // projection
  int64_t bias_offset(int64_t layer, int64_t d) const;    // biases of input and hidden state
  int64_t parameter_count() const;

 private:
  int64_t cell_weights(int64_t layer) const;
};

// Memory layout of one layer and direction. A vector has 64 bytes, which are `lanes` elements of
// the compute type (float, or double for float64). A gate block is the result of one pass of the
// step kernel: `lanes` hidden units with all gates, or 4 * lanes units of a cell with one gate.
struct RnnBlocks {
  int64_t lanes, units, width, blocks;
  int64_t hidden_pad, out_pad;  // row lengths of stored states: multiples of 4 * lanes
  RnnBlocks(const RnnSizes& s, size_t element_bytes);
};

// Byte offsets of the values that training saves for backward.
struct RnnReserve {
  struct LayerOffsets {
    size_t gates;      // [blocks][rows][width], after the activation
    size_t hidden;     // [steps + 1][batch][out_pad]: state before each step, in time order
    size_t cell;       // like `hidden` for cell states; lstm
    size_t recurrent;  // [blocks][rows][lanes]: Rh + b of the new gate; gru
    size_t inner;      // [rows][hidden_pad]: output before the projection
  };
  size_t part_bytes = 0;                          // bytes of one layer and direction
  size_t layer_input = 0, layer_input_bytes = 0;  // [layers - 1][rows][directions * out]
  size_t mask = 0, mask_bytes = 0;                // [layers - 1][rows * directions * out], bytes
  size_t bytes = 0;
  LayerOffsets first{};

  RnnReserve(const RnnSizes& s, size_t element_bytes);
};

inline size_t rnn_element_bytes(DType dtype) { return dtype == DType::kFloat64 ? 8 : 4; }

}  // namespace mxlite
