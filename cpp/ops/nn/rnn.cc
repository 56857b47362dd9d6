#include "cpp/ops/nn/rnn.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {

RnnSizes::RnnSizes(const RnnParams& p, const Shape& data)
    : mode(p.mode),
      steps(data[0]),
      batch(data[1]),
      input(data[2]),
      hidden(p.state_size),
      projection(p.projection_size.value_or(0)),
      layers(p.num_layers),
      directions(p.bidirectional ? 2 : 1),
      gates(p.mode == RnnMode::kLstm  ? 4
            : p.mode == RnnMode::kGru ? 3
                                      : 1),
      dropout(p.p > 0 && p.num_layers > 1) {}

int64_t RnnSizes::cell_weights(int64_t layer) const {
  const int64_t inputs = checked_add(layer_input(layer), out());
  return checked_add(checked_mul(gates * hidden, inputs), checked_mul(projection, hidden));
}
int64_t RnnSizes::weight_offset(int64_t layer, int64_t d) const {
  const int64_t inside = checked_mul(d, cell_weights(layer));
  if (layer == 0) return inside;
  // All layers except the first have equal sizes.
  const int64_t per_direction =
      checked_add(cell_weights(0), checked_mul(layer - 1, cell_weights(1)));
  return checked_add(checked_mul(directions, per_direction), inside);
}
int64_t RnnSizes::bias_offset(int64_t layer, int64_t d) const {
  return checked_add(weight_offset(layers, 0),
                     checked_mul((layer * directions + d) * 2, gates * hidden));
}
int64_t RnnSizes::parameter_count() const { return bias_offset(layers, 0); }

RnnBlocks::RnnBlocks(const RnnSizes& s, size_t element_bytes)
    : lanes(static_cast<int64_t>(64 / element_bytes)),
      units(s.gates == 1 ? 4 * lanes : lanes),
      width(s.gates == 1 ? 4 * lanes : s.gates * lanes),
      blocks((s.hidden + units - 1) / units),
      hidden_pad((s.hidden + 4 * lanes - 1) / (4 * lanes) * 4 * lanes),
      out_pad((s.out() + 4 * lanes - 1) / (4 * lanes) * 4 * lanes) {}

RnnReserve::RnnReserve(const RnnSizes& s, size_t element_bytes) {
  const RnnBlocks b(s, element_bytes);
  const auto take = [&](size_t& total, int64_t count, size_t size) {
    const size_t at = total;
    total += (static_cast<size_t>(count) * size + 63) / 64 * 64;
    return at;
  };
  const auto part = [&](int64_t count) { return take(part_bytes, count, element_bytes); };
  first.gates = part(b.blocks * s.rows() * b.width);
  first.hidden = part((s.steps + 1) * s.batch * b.out_pad);
  first.cell = part(s.mode == RnnMode::kLstm ? (s.steps + 1) * s.batch * b.hidden_pad : 0);
  first.recurrent = part(s.mode == RnnMode::kGru ? b.blocks * s.rows() * b.lanes : 0);
  first.inner = part(s.projection ? s.rows() * b.hidden_pad : 0);
  bytes = part_bytes * static_cast<size_t>(s.layers * s.directions);

  const int64_t between = s.rows() * s.directions * s.out();
  take(layer_input_bytes, between, element_bytes);
  take(mask_bytes, s.dropout ? between : 0, 1);
  layer_input = bytes;
  mask = layer_input + layer_input_bytes * static_cast<size_t>(s.layers - 1);
  bytes = mask + mask_bytes * static_cast<size_t>(s.layers - 1);
}

namespace {

constexpr const char* kRnnOp = "RNN";

void check_rnn_params(const RnnParams& p, const Shape& data) {
  MX_CHECK_SHAPE(data.ndim() == 3, kRnnOp,
                 ": data must have 3 dimensions (steps, batch, inputs), got shape ", data);
  if (p.projection_size)
    MX_CHECK(p.is_lstm(), kRnnOp,
             ": mode must be 'lstm' with projection_size, got projection_size ", *p.projection_size,
             " with another mode");
  const bool low = p.lstm_state_clip_min.has_value(), high = p.lstm_state_clip_max.has_value();
  MX_CHECK((!low && !high) || p.is_lstm(), kRnnOp,
           ": lstm_state_clip_min and lstm_state_clip_max need mode 'lstm'");
  MX_CHECK(low == high, kRnnOp,
           ": lstm_state_clip_min and lstm_state_clip_max must be given together, got only "
           "lstm_state_clip_",
           low ? "min" : "max");
  MX_CHECK(!p.clips() || *p.lstm_state_clip_min <= *p.lstm_state_clip_max, kRnnOp,
           ": lstm_state_clip_min must be at most lstm_state_clip_max ",
           p.lstm_state_clip_max.value_or(0), ", got ", p.lstm_state_clip_min.value_or(0));
}

Shape state_shape(const RnnSizes& s, int64_t size) {
  return Shape{s.layers * s.directions, s.batch, size};
}

Shape parameters_shape(const RnnSizes& s) {
  return Shape{is_known(s.input) ? s.parameter_count() : kUnknownDim};
}

Specs infer_rnn(const RnnParams& p, std::span<const TensorSpec> in) {
  check_floating(kRnnOp, "data", in[0]);
  check_rnn_params(p, in[0].shape);
  const DType dtype = in[0].dtype;
  const RnnSizes s(p, in[0].shape);
  const auto check = [&](size_t i, const char* name, const Shape& shape) {
    check_same_dtype(kRnnOp, name, in[i], dtype);
    check_param_shape(kRnnOp, name, in[i], shape, in[0].shape);
  };
  check(1, "parameters", parameters_shape(s));
  const Shape state = state_shape(s, s.out()), cell = state_shape(s, s.hidden);
  check(2, "state", state);
  if (p.is_lstm()) check(3, "state_cell", cell);
  if (p.use_sequence_length) {
    const TensorSpec& lengths = in[p.is_lstm() ? 4 : 3];
    MX_CHECK_DTYPE(lengths.dtype != DType::kBool, kRnnOp,
                   ": sequence_length must have a numeric dtype, got bool");
    check_param_shape(kRnnOp, "sequence_length", lengths, Shape{s.batch}, in[0].shape);
  }
  Specs out{TensorSpec{Shape{s.steps, s.batch, s.directions * s.out()}, dtype},
            TensorSpec{state, dtype}};
  if (p.is_lstm()) out.push_back({cell, dtype});
  const auto reserve_bytes = [&](int64_t, int64_t) {
    return static_cast<int64_t>(RnnReserve(s, rnn_element_bytes(dtype)).bytes);
  };
  out.push_back({Shape{if_known(reserve_bytes, s.steps, s.batch)}, DType::kUInt8});
  return out;
}

void complete_rnn(const RnnParams& p, std::span<TensorSpec> in) {
  const Shape& data = in[0].shape;
  if (data.ndim() < 0) return;
  check_rnn_params(p, data);
  const RnnSizes s(p, data);
  complete_shape(in[1], parameters_shape(s));
  complete_shape(in[2], state_shape(s, s.out()));
  if (p.is_lstm()) complete_shape(in[3], state_shape(s, s.hidden));
  if (p.use_sequence_length) complete_shape(in[p.is_lstm() ? 4 : 3], Shape{s.batch});
}

std::vector<ValueRef> rnn_gradient(GradBuilder& g) {
  auto params = std::make_shared<RnnGradParams>();
  static_cast<RnnParams&>(*params) = g.params<RnnParams>();
  params->has_reserve = g.training();
  params->data_grad = g.needs_grad(0);
  params->parameters_grad = g.needs_grad(1);
  const bool lstm = params->is_lstm();
  std::vector<ValueRef> inputs = {g.output_grad(0), g.output_grad(1)};
  if (lstm) inputs.push_back(g.output_grad(2));
  for (int i = 0; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  inputs.push_back(g.output(lstm ? 3 : 2));
  const bool data_grad = params->data_grad, parameters_grad = params->parameters_grad;
  std::vector<ValueRef> grads = g.emit_all("_rnn_backward", inputs, ParamsRef(std::move(params)));
  if (!data_grad) grads[0] = {};
  if (!parameters_grad) grads[1] = {};
  grads.resize(static_cast<size_t>(g.num_inputs()));  // sequence_length has no gradient
  return grads;
}

Specs infer_rnn_backward(const RnnGradParams& p, std::span<const TensorSpec> in) {
  const size_t first = p.is_lstm() ? 3 : 2;  // index of the input data
  const TensorSpec none{Shape{0}, in[first].dtype};
  Specs out{p.data_grad ? in[first] : none, p.parameters_grad ? in[first + 1] : none,
            in[first + 2]};
  if (p.is_lstm()) out.push_back(in[first + 3]);
  return out;
}

std::vector<std::string> input_names(bool backward) {
  std::vector<std::string> names = {"data", "parameters", "state", "state_cell", "sequence_length"};
  if (backward) {
    names.insert(names.begin(), {"output_grad", "state_grad", "cell_grad"});
    names.push_back("reserve");
  }
  return names;
}

int rnn_input_count(const RnnParams& p) {
  return 3 + (p.is_lstm() ? 1 : 0) + (p.use_sequence_length ? 1 : 0);
}
int state_count(const RnnParams& p) { return p.is_lstm() ? 2 : 1; }

}  // namespace

static const Registration rnn_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<RnnParams>(kRnnOp)
              .doc("Stacked recurrent layers (vanilla, LSTM or GRU) over sequences of shape "
                   "(steps, batch, inputs).")
              .shapes("data: (steps, N, inputs), parameters: (all weights, then all biases), "
                      "state, state_cell: (layers * directions, N, state_size) -> (steps, N, "
                      "directions * state_size)")
              .inputs(input_names(false))
              .input_count(rnn_input_count)
              .output_count([](const RnnParams& p, int) { return 2 + state_count(p); })
              .visible_outputs(
                  [](const RnnParams& p) { return p.state_outputs ? 1 + state_count(p) : 1; })
              .infer(infer_rnn)
              .complete(complete_rnn)
              .gradient(rnn_gradient)
              .training_dependent()
              .random([](const RnnParams& p, std::span<const TensorSpec> out) {
                const auto masks = static_cast<uint64_t>(p.p > 0 ? p.num_layers - 1 : 0);
                return masks * (static_cast<uint64_t>(out[0].shape.size()) / 4 + 1);
              })
              .amp(AmpClass::kLowPrecision)
              .symbol({.output_names = {"output", "state_output", "statecell_output"}})
              .total_outputs([](const RnnParams&, int visible) { return visible; }));
  ops.add(OpBuilder<RnnGradParams>("_rnn_backward")
              .internal()
              .doc("Gradients of RNN.")
              .inputs(input_names(true))
              .input_count(
                  [](const RnnGradParams& p) { return rnn_input_count(p) + state_count(p) + 2; })
              .output_count([](const RnnGradParams& p, int) { return 2 + state_count(p); })
              .infer(infer_rnn_backward));
});

}  // namespace mxlite
