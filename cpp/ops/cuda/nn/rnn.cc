// Recurrent layers: one matrix product for the inputs of all steps, then one product and one kernel
// per step. cuDNN's recurrent layers are not used: the size and format of their reserve are private
// to cuDNN, but the operator's reserve output has a fixed size and a documented format. 16-bit
// floats are computed in float32, because rounding the states at every step accumulates errors.
#include "cpp/ops/nn/rnn.h"

#include "cpp/ops/cuda/float32_copies.h"
#include "cpp/ops/cuda/matrix/gemm.h"
#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/nn/rnn_cells.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

void* offset(void* base, int64_t elements, DType dtype) {
  return static_cast<char*>(base) + elements * static_cast<int64_t>(dtype_size(dtype));
}
const void* offset(const void* base, int64_t elements, DType dtype) {
  return offset(const_cast<void*>(base), elements, dtype);
}

// data, parameters, state, [state_cell], [sequence_length]
struct Operands {
  const TensorRef *data, *parameters, *state, *cell = nullptr, *lengths = nullptr;
  Operands(const RnnParams& p, Inputs in) : data(&in[0]), parameters(&in[1]), state(&in[2]) {
    if (p.is_lstm()) cell = &in[3];
    if (p.use_sequence_length) lengths = &in[p.is_lstm() ? 4 : 3];
  }
};

// A call's sizes and the memory that forward leaves for backward.
class Pass {
 public:
  Pass(KernelContext& ctx, const RnnParams& p, const Operands& in, void* reserve)
      : ctx_(ctx),
        params_(p),
        in_(in),
        s_(p, in.data->shape),
        dtype_(in.data->dtype),
        layout_(s_, rnn_element_bytes(dtype_)),
        reserve_(reserve) {}

  const RnnSizes& sizes() const { return s_; }

  // `products` is scratch memory of (batch, gates * hidden) elements. `drops`: apply dropout
  // between layers.
  void forward(void* output, void* state, void* cell, void* products, bool drops) {
    const void* input = in_.data->data;
    for (int64_t l = 0; l < s_.layers; ++l) {
      void* const to = l + 1 < s_.layers ? layer_input(l) : output;
      for (int64_t d = 0; d < s_.directions; ++d) {
        run_direction(l, d, input, to, products);
        const int64_t index = l * s_.directions + d, last = d == 1 ? 0 : s_.steps;
        copy(offset(state, index * s_.batch * s_.out(), dtype_), hidden(l, d, last),
             s_.batch * s_.out());
        if (cell)
          copy(offset(cell, index * s_.batch * s_.hidden, dtype_), cells(l, d, last),
               s_.batch * s_.hidden);
      }
      if (drops && s_.dropout && l + 1 < s_.layers)
        rnn_drop(ctx_, dtype_, to, mask(l), between(), params_.p, l);
      input = to;
    }
  }

 protected:
  int64_t between() const { return s_.rows() * s_.directions * s_.out(); }
  void* part_at(int64_t l, int64_t d, size_t at) const {
    const auto index = static_cast<size_t>(l * s_.directions + d);
    return static_cast<char*>(reserve_) + index * layout_.part_bytes + at;
  }
  void* gates(int64_t l, int64_t d, int64_t step) const {
    return offset(part_at(l, d, layout_.first.gates), step * s_.batch * s_.gates * s_.hidden,
                  dtype_);
  }
  // States are stored in order of time, so backward directions start after the last step.
  void* hidden(int64_t l, int64_t d, int64_t slot) const {
    return offset(part_at(l, d, layout_.first.hidden), slot * s_.batch * s_.out(), dtype_);
  }
  void* cells(int64_t l, int64_t d, int64_t slot) const {
    if (!params_.is_lstm()) return nullptr;
    return offset(part_at(l, d, layout_.first.cell), slot * s_.batch * s_.hidden, dtype_);
  }
  void* recurrent(int64_t l, int64_t d, int64_t step) const {
    return offset(part_at(l, d, layout_.first.recurrent), step * s_.batch * s_.hidden, dtype_);
  }
  void* inner(int64_t l, int64_t d, int64_t step) const {
    return offset(part_at(l, d, layout_.first.inner), step * s_.batch * s_.hidden, dtype_);
  }
  void* layer_input(int64_t l) const {
    return static_cast<char*>(reserve_) + layout_.layer_input +
           layout_.layer_input_bytes * static_cast<size_t>(l);
  }
  uint8_t* mask(int64_t l) const {
    return static_cast<uint8_t*>(reserve_) + layout_.mask +
           layout_.mask_bytes * static_cast<size_t>(l);
  }
  const void* parameter(int64_t at) const { return offset(in_.parameters->data, at, dtype_); }
  int64_t gate_rows() const { return s_.gates * s_.hidden; }
  int64_t hidden_weight(int64_t l, int64_t d) const {
    return s_.weight_offset(l, d) + gate_rows() * s_.layer_input(l);
  }
  int64_t out_weight(int64_t l, int64_t d) const {
    return hidden_weight(l, d) + gate_rows() * s_.out();
  }

  // Backward calls this function, too, because the program may have written other values to the
  // initial states.
  void keep_first(int64_t l, int64_t d) {
    const int64_t index = l * s_.directions + d, first = d == 1 ? s_.steps : 0;
    copy(hidden(l, d, first), offset(in_.state->data, index * s_.batch * s_.out(), dtype_),
         s_.batch * s_.out());
    if (in_.cell)
      copy(cells(l, d, first), offset(in_.cell->data, index * s_.batch * s_.hidden, dtype_),
           s_.batch * s_.hidden);
  }

  RnnLayer describe(int64_t l, int64_t d) const {
    RnnLayer layer{};
    layer.mode = s_.mode;
    layer.dtype = dtype_;
    layer.batch = s_.batch;
    layer.hidden = s_.hidden;
    layer.out = s_.out();
    layer.bias_input = parameter(s_.bias_offset(l, d));
    layer.bias_hidden = parameter(s_.bias_offset(l, d) + gate_rows());
    if (in_.lengths) {
      layer.lengths = in_.lengths->data;
      layer.lengths_dtype = in_.lengths->dtype;
    }
    layer.clips = params_.clips();
    if (layer.clips) {
      layer.clip_nan = params_.lstm_state_clip_nan;
      layer.clip_min = *params_.lstm_state_clip_min;
      layer.clip_max = *params_.lstm_state_clip_max;
    }
    return layer;
  }

  void copy(void* to, const void* from, int64_t count) {
    copy_bytes(ctx_, to, from, static_cast<size_t>(count) * dtype_size(dtype_));
  }
  // c (m x n) = op(a) op(b) + beta c, all dense.
  void product(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const void* a,
               const void* b, void* c, double beta = 0) {
    gemm(ctx_,
         {.dtype = dtype_,
          .trans_a = trans_a,
          .trans_b = trans_b,
          .m = m,
          .n = n,
          .k = k,
          .lda = trans_a ? m : k,
          .ldb = trans_b ? k : n,
          .ldc = n,
          .beta = beta},
         {a, b, c});
  }

  KernelContext& ctx_;
  const RnnParams& params_;
  const Operands in_;
  const RnnSizes s_;
  const DType dtype_;
  const RnnReserve layout_;
  void* const reserve_;

 private:
  void run_direction(int64_t l, int64_t d, const void* input, void* output, void* products) {
    const RnnLayer layer = describe(l, d);
    product(false, true, s_.rows(), gate_rows(), s_.layer_input(l), input,
            parameter(s_.weight_offset(l, d)), gates(l, d, 0));
    keep_first(l, d);
    for (int64_t k = 0; k < s_.steps; ++k) {
      const int64_t t = d == 1 ? s_.steps - 1 - k : k;
      const int64_t before = d == 1 ? t + 1 : t, after = d == 1 ? t : t + 1;
      product(false, true, s_.batch, gate_rows(), s_.out(), hidden(l, d, before),
              parameter(hidden_weight(l, d)), products);
      const bool projects = s_.projection > 0;
      rnn_forward_step(ctx_, layer,
                       {t, gates(l, d, t), products, hidden(l, d, before), cells(l, d, before),
                        hidden(l, d, after), cells(l, d, after), recurrent(l, d, t),
                        projects ? inner(l, d, t) : nullptr});
      if (projects)
        product(false, true, s_.batch, s_.out(), s_.hidden, inner(l, d, t),
                parameter(out_weight(l, d)), products);
      const int64_t stride = s_.directions * s_.out();
      rnn_store(ctx_, layer,
                {t, projects ? products : nullptr, hidden(l, d, before), hidden(l, d, after),
                 offset(output, t * s_.batch * stride + d * s_.out(), dtype_), stride});
    }
  }
};

// Scratch memory of backward.
struct BackwardScratch {
  void *input_grads, *hidden_grads, *active, *inner_grad, *state_grad, *cell_grad, *between[2];
};

class BackwardPass final : public Pass {
 public:
  BackwardPass(KernelContext& ctx, const RnnGradParams& p, const Operands& in, void* reserve,
               const BackwardScratch& scratch)
      : Pass(ctx, p, in, reserve), grad_params_(p), w_(scratch) {}

  // `grads`: gradients of output, state and cell. `out`: gradients of data, parameters, state and
  // cell.
  void run(Inputs grads, Outputs out) {
    const void* above = grads[0].data;
    for (int64_t l = s_.layers; l-- > 0;) {
      void* below = l > 0 ? w_.between[l % 2] : grad_params_.data_grad ? out[0].data : nullptr;
      const void* input = l > 0 ? layer_input(l - 1) : in_.data->data;
      for (int64_t d = 0; d < s_.directions; ++d) {
        run_direction(l, d, above, grads, out);
        if (below)
          product(false, false, s_.rows(), s_.layer_input(l), gate_rows(), w_.input_grads,
                  parameter(s_.weight_offset(l, d)), below, d > 0 ? 1 : 0);
        if (grad_params_.parameters_grad) parameter_grads(l, d, input, out[1].data);
      }
      if (l > 0 && s_.dropout && grad_params_.has_reserve)
        rnn_undrop(ctx_, dtype_, below, mask(l - 1), between(), params_.p);
      above = below;
    }
  }

 private:
  void run_direction(int64_t l, int64_t d, const void* above, Inputs grads, Outputs out) {
    const RnnLayer layer = describe(l, d);
    const int64_t index = l * s_.directions + d, units = s_.batch * s_.hidden,
                  outs = s_.batch * s_.out();
    if (grad_params_.has_reserve) keep_first(l, d);
    copy(w_.state_grad, offset(grads[1].data, index * outs, dtype_), outs);
    if (in_.cell) copy(w_.cell_grad, offset(grads[2].data, index * units, dtype_), units);
    for (int64_t k = s_.steps; k-- > 0;) {
      const int64_t t = d == 1 ? s_.steps - 1 - k : k;
      const int64_t before = d == 1 ? t + 1 : t, after = d == 1 ? t : t + 1;
      const int64_t stride = s_.directions * s_.out();
      void* const active = offset(w_.active, t * outs, dtype_);
      void* const input_grads = offset(w_.input_grads, t * s_.batch * gate_rows(), dtype_);
      void* const hidden_grads = offset(w_.hidden_grads, t * s_.batch * gate_rows(), dtype_);
      rnn_output_grad(ctx_, layer,
                      {t, offset(above, t * s_.batch * stride + d * s_.out(), dtype_), stride,
                       w_.state_grad, active});
      if (s_.projection)
        product(false, false, s_.batch, s_.hidden, s_.out(), active, parameter(out_weight(l, d)),
                w_.inner_grad);
      rnn_backward_step(
          ctx_, layer,
          {t, gates(l, d, t), recurrent(l, d, t), hidden(l, d, before), cells(l, d, before),
           cells(l, d, after), s_.projection ? w_.inner_grad : active, w_.cell_grad, w_.state_grad,
           input_grads, hidden_grads});
      product(false, false, s_.batch, s_.out(), gate_rows(), hidden_grads,
              parameter(hidden_weight(l, d)), w_.state_grad, 1);
    }
    copy(offset(out[2].data, index * outs, dtype_), w_.state_grad, outs);
    if (in_.cell) copy(offset(out[3].data, index * units, dtype_), w_.cell_grad, units);
  }

  void parameter_grads(int64_t l, int64_t d, const void* input, void* to) {
    const auto place = [&](int64_t at) { return offset(to, at, dtype_); };
    product(true, false, gate_rows(), s_.layer_input(l), s_.rows(), w_.input_grads, input,
            place(s_.weight_offset(l, d)));
    product(true, false, gate_rows(), s_.out(), s_.rows(), w_.hidden_grads,
            hidden(l, d, d == 1 ? 1 : 0), place(hidden_weight(l, d)));
    if (s_.projection)
      product(true, false, s_.out(), s_.hidden, s_.rows(), w_.active, inner(l, d, 0),
              place(out_weight(l, d)));
    // channel_sum cannot be used: it would overwrite the scratch memory that holds the gradients.
    const auto sum = [&](const void* grads, int64_t at) {
      rnn_bias_grad(ctx_, dtype_, grads, s_.rows(), gate_rows(), place(at));
    };
    sum(w_.input_grads, s_.bias_offset(l, d));
    sum(w_.hidden_grads, s_.bias_offset(l, d) + gate_rows());
  }

  const RnnGradParams& grad_params_;
  const BackwardScratch w_;
};

// Returns how many elements of scratch memory the products of one step need.
int64_t products_count(const RnnSizes& s) {
  return s.batch * std::max(s.gates * s.hidden, s.out());
}

void rnn(KernelContext& ctx, const RnnParams& p, Inputs in, Outputs out) {
  const size_t states = p.is_lstm() ? 2 : 1;
  const DType dtype = without_halves(in[0].dtype);
  const RnnSizes s(p, in[0].shape);
  ScratchPlan plan;
  Float32Copies inputs(plan, in), outputs(plan, out.first(1 + states));
  const size_t products = plan.add(static_cast<size_t>(products_count(s)) * dtype_size(dtype));
  void* const block = ctx.scratch(plan.bytes());
  inputs.place(block);
  outputs.place(block);
  inputs.read(ctx);
  const Outputs to = outputs.refs();
  Pass(ctx, p, Operands(p, inputs.refs()), out[1 + states].data)
      .forward(to[0].data, to[1].data, states == 2 ? to[2].data : nullptr,
               part<char>(block, products), ctx.training);
  outputs.write(ctx);
}

void rnn_backward(KernelContext& ctx, const RnnGradParams& p, Inputs in, Outputs out) {
  const size_t states = p.is_lstm() ? 2 : 1;
  const size_t first_operand = 1 + states;
  const DType dtype = without_halves(in[first_operand].dtype);
  const RnnSizes s(p, in[first_operand].shape);
  const int64_t all_gates = s.rows() * s.gates * s.hidden, units = s.batch * s.hidden;
  ScratchPlan plan;
  Float32Copies inputs(plan, in.first(in.size() - 1)), outputs(plan, out);
  const auto add = [&](int64_t count) {
    return plan.add(static_cast<size_t>(count) * dtype_size(dtype));
  };
  const bool gru = p.mode == RnnMode::kGru;
  const size_t input_grads = add(all_gates), hidden_grads = add(gru ? all_gates : 0);
  const size_t active = add(s.rows() * s.out()), inner_grad = add(s.projection ? units : 0);
  const size_t state_grad = add(s.batch * s.out()), cell_grad = add(units);
  const int64_t between = s.layers > 1 ? s.rows() * s.directions * s.out() : 0;
  const size_t first = add(between), second = add(between);
  // Without a reserve forward runs again; its results are discarded.
  const RnnReserve layout(s, rnn_element_bytes(dtype));
  const size_t reserve = plan.add(p.has_reserve ? 0 : layout.bytes);
  const bool again = !p.has_reserve;
  const size_t output = add(again ? s.rows() * s.directions * s.out() : 0);
  const size_t state = add(again ? s.layers * s.directions * s.batch * s.out() : 0);
  const size_t cell = add(again ? s.layers * s.directions * units : 0);
  const size_t products = add(again ? products_count(s) : 0);
  void* const block = ctx.scratch(plan.bytes());
  const auto at = [&](size_t place) { return part<char>(block, place); };
  inputs.place(block);
  outputs.place(block);
  inputs.read(ctx);
  const Operands operands(p, inputs.refs().subspan(first_operand));

  void* const kept = p.has_reserve ? in.back().data : at(reserve);
  if (!p.has_reserve)
    Pass(ctx, p, operands, kept)
        .forward(at(output), at(state), states == 2 ? at(cell) : nullptr, at(products), false);
  BackwardPass(ctx, p, operands, kept,
               {at(input_grads),
                gru ? at(hidden_grads) : at(input_grads),
                at(active),
                at(inner_grad),
                at(state_grad),
                at(cell_grad),
                {at(first), at(second)}})
      .run(inputs.refs(), outputs.refs());
  outputs.write(ctx);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::rnn>("RNN");
  ops.cuda_kernel<&cuda::rnn_backward>("_rnn_backward");
});

}  // namespace mxlite::cuda
