// Backward of RNN, from the last layer to the first: the steps (rnn_steps.h), then the gradients of
// weights and data as products over all steps.
#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/nn/rnn_pass.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace cpu {
namespace {

template <class C>
struct Gradients {
  C *data = nullptr, *parameters = nullptr, *state = nullptr, *cell = nullptr;
};

template <class C>
class BackwardPass {
 public:
  BackwardPass(const RnnGradParams& p, const RnnSizes& s, ScratchPlan& plan)
      : params_(p), sizes_(s), blocks_(s, sizeof(C)), reserve_(s, sizeof(C)) {
    RnnBackward<C> sample{{s, blocks_, {}}};
    packed_ = plan.add<C>(rnn_backward_packed(s, blocks_));
    gate_grads_ = plan.add<C>(s.rows() * sample.gate_stride());
    out_grads_ = plan.add<C>(s.projection ? s.rows() * blocks_.out_pad : 0);
    hidden_grad_ = plan.add<C>(s.batch * blocks_.out_pad);
    cell_grad_ = plan.add<C>(s.batch * blocks_.hidden_pad);
    for (int64_t l = 1; l < std::min<int64_t>(s.layers, 3); ++l)  // memory of run() between layers
                                                                  // l and l - 1
      between_[l % 2] = plan.add<C>(s.rows() * s.directions * s.out());
  }

  // `grads` are the gradients of output, state and cell.
  void run(const RnnOperands<C>& in, const RnnResults<const C>& grads, void* reserve, void* scratch,
           const Gradients<C>& out) const {
    const C* output_grad = grads.output;
    for (int64_t l = sizes_.layers - 1; l >= 0; --l) {
      C* data_grad = l == 0 ? out.data : part<C>(scratch, between_[l % 2]);
      for (int64_t d = 0; d < sizes_.directions; ++d) {
        const RnnBackward<C> layer = steps(in, grads, reserve, scratch, out, l, d, output_grad);
        rnn_backward(layer);
        if (data_grad)
          add_data_grad(layer, in.parameters + sizes_.weight_offset(l, d), d, data_grad);
        if (out.parameters) {
          const C* data = l == 0 ? in.data : layer_input(reserve, l);
          weight_grads(layer, RnnKept<C>(reserve_, reserve, l * sizes_.directions + d), data,
                       out.parameters + sizes_.weight_offset(l, d),
                       out.parameters + sizes_.bias_offset(l, d));
        }
      }
      if (l > 0) undrop(data_grad, reserve, l);
      output_grad = data_grad;
    }
  }

 private:
  const C* layer_input(void* reserve, int64_t l) const {
    return part<C>(reserve,
                   reserve_.layer_input + reserve_.layer_input_bytes * static_cast<size_t>(l - 1));
  }

  // Copies the initial states to the reserve if the program has changed them since forward. Does
  // not write slots that are already equal, because another backward may be reading them.
  void renew_first(const C* state, int64_t columns, int64_t padded, int64_t d,
                   const int64_t* lengths, C* slots) const {
    const int64_t last = d == 1 ? sizes_.steps : 0;
    for (int64_t r = 0; r < sizes_.batch; ++r, state += columns) {
      // In the backward direction, steps beyond the end of a sample pass the initial state
      // on.
      const int64_t first = d == 1 && lengths ? std::min(lengths[r], last) : last;
      for (int64_t slot = first; slot <= last; ++slot) {
        C* const kept = slots + (slot * sizes_.batch + r) * padded;
        if (!std::equal(state, state + columns, kept)) std::copy_n(state, columns, kept);
      }
    }
  }

  RnnBackward<C> steps(const RnnOperands<C>& in, const RnnResults<const C>& grads, void* reserve,
                       void* scratch, const Gradients<C>& out, int64_t l, int64_t d,
                       const C* output_grad) const {
    const RnnSizes& s = sizes_;
    const int64_t index = l * s.directions + d;
    const RnnKept<C> kept(reserve_, reserve, index);
    renew_first(in.state + index * s.batch * s.out(), s.out(), blocks_.out_pad, d, in.lengths,
                kept.hidden);
    if (in.cell)
      renew_first(in.cell + index * s.batch * s.hidden, s.hidden, blocks_.hidden_pad, d, in.lengths,
                  kept.cell);
    RnnBackward<C> layer{{s, blocks_, rnn_clip(params_)}};
    layer.inputs = s.layer_input(l);
    layer.reverse = d == 1;
    layer.threads = rnn_threads(s);
    layer.lengths = in.lengths;
    layer.weight_hidden = in.parameters + s.weight_offset(l, d) + s.gates * s.hidden * layer.inputs;
    if (s.projection) layer.weight_out = layer.weight_hidden + s.gates * s.hidden * s.out();
    layer.gates = kept.gates;
    layer.hidden_slots = kept.hidden;
    layer.cell_slots = kept.cell;
    layer.recurrent = kept.recurrent;
    layer.output_grad = output_grad + d * s.out();
    layer.output_stride = s.directions * s.out();
    layer.last_hidden_grad = grads.state + index * s.batch * s.out();
    layer.first_hidden_grad = out.state + index * s.batch * s.out();
    if (grads.cell) {
      layer.last_cell_grad = grads.cell + index * s.batch * s.hidden;
      layer.first_cell_grad = out.cell + index * s.batch * s.hidden;
    }
    layer.gate_grads = part<C>(scratch, gate_grads_);
    layer.out_grads = part<C>(scratch, out_grads_);
    layer.hidden_grad = part<C>(scratch, hidden_grad_);
    layer.cell_grad = part<C>(scratch, cell_grad_);
    layer.packed = part<C>(scratch, packed_);
    return layer;
  }

  // Calls fn(columns of gate_grads, first row of the weight, rows) for the gates of the input. For
  // gru there are two calls, because gate_grads has another order (n, r, z).
  void for_input_gates(auto&& fn) const {
    const int64_t h = sizes_.hidden;
    if (sizes_.mode == RnnMode::kGru) {
      fn(h, 0, 2 * h);
      fn(0, 2 * h, h);
    } else {
      fn(0, 0, sizes_.gates * h);
    }
  }

  void add_data_grad(const RnnBackward<C>& layer, const C* weight, int64_t d, C* data_grad) const {
    int64_t added = d;  // the first product of direction 0 overwrites the sums
    for_input_gates([&](int64_t column, int64_t row, int64_t count) {
      gemm(DTypeOf<C>::value, false, false, sizes_.rows(), layer.inputs, count,
           layer.gate_grads + column, layer.gate_stride(), weight + row * layer.inputs,
           layer.inputs, data_grad, layer.inputs, 1, added++ ? 1 : 0);
    });
  }

  void weight_grads(const RnnBackward<C>& layer, const RnnKept<C>& kept, const C* data, C* grad,
                    C* bias_grad) const {
    const RnnSizes& s = sizes_;
    const int64_t stride = layer.gate_stride(), rows = s.gates * s.hidden;
    // `to` (count x columns) = gradients^T (count x all steps) * values (all steps x columns).
    const auto product = [&](const C* grads, int64_t ld, int64_t count, const C* values,
                             int64_t value_ld, int64_t columns, C* to) {
      gemm(DTypeOf<C>::value, true, false, count, columns, s.rows(), grads, ld, values, value_ld,
           to, columns);
    };
    for_input_gates([&](int64_t column, int64_t row, int64_t count) {
      product(layer.gate_grads + column, stride, count, data, layer.inputs, layer.inputs,
              grad + row * layer.inputs);
      sum_rows(layer.gate_grads + column, stride, count, bias_grad + row);
    });
    const C* hidden_side = layer.gate_grads + layer.hidden_side();
    const C* before = kept.hidden + (layer.reverse ? s.batch * blocks_.out_pad : 0);
    grad += rows * layer.inputs;
    product(hidden_side, stride, rows, before, blocks_.out_pad, s.out(), grad);
    sum_rows(hidden_side, stride, rows, bias_grad + rows);
    if (s.projection)
      product(layer.out_grads, blocks_.out_pad, s.projection, kept.inner, blocks_.hidden_pad,
              s.hidden, grad + rows * s.out());
  }

  // Sums over all rows in pieces, so that float sums over long sequences do not lose precision.
  void sum_rows(const C* values, int64_t stride, int64_t columns, C* to) const {
    constexpr int64_t kStrip = 64, kPiece = 128;
    const int64_t rows = sizes_.rows();
    parallel_for((columns + kStrip - 1) / kStrip, rows * kStrip, [&](int64_t strip) {
      const int64_t first = strip * kStrip, width = std::min(kStrip, columns - first);
      double total[kStrip] = {};
      for (int64_t begin = 0; begin < rows; begin += kPiece) {
        C sum[kStrip] = {};
        for (int64_t r = begin; r < std::min(begin + kPiece, rows); ++r)
          for (int64_t c = 0; c < width; ++c) sum[c] += values[r * stride + first + c];
        for (int64_t c = 0; c < width; ++c) total[c] += sum[c];
      }
      for (int64_t c = 0; c < width; ++c) to[first + c] = static_cast<C>(total[c]);
    });
  }

  void undrop(C* grad, void* reserve, int64_t l) const {
    if (!sizes_.dropout || !params_.has_reserve) return;
    const auto* mask =
        part<uint8_t>(reserve, reserve_.mask + reserve_.mask_bytes * static_cast<size_t>(l - 1));
    const C scale = C(1) / (C(1) - static_cast<C>(params_.p));
    parallel_ranges(sizes_.rows() * sizes_.directions * sizes_.out(), 1,
                    [&](int64_t begin, int64_t end, int) {
                      for (int64_t i = begin; i < end; ++i) grad[i] *= mask[i] ? scale : C(0);
                    });
  }

  const RnnGradParams& params_;
  RnnSizes sizes_;
  RnnBlocks blocks_;
  RnnReserve reserve_;
  size_t packed_ = 0, gate_grads_ = 0, out_grads_ = 0, hidden_grad_ = 0, cell_grad_ = 0;
  size_t between_[2] = {};
};

template <class T>
void backward(KernelContext& ctx, const RnnGradParams& p, Inputs in, Outputs out) {
  using C = ComputeType<T>;
  constexpr bool kConverts = !std::is_same_v<T, C>;
  const size_t states = p.is_lstm() ? 2 : 1;
  const Inputs operands = in.subspan(1 + states, in.size() - 2 - states);
  const RnnSizes s(p, operands[0].shape);
  const RnnReserve reserve_layout(s, sizeof(C));
  ScratchPlan plan;
  const RnnLoader<C> loader(p, operands, plan);
  const BackwardPass<C> pass(p, s, plan);
  size_t grads_at[3] = {}, results_at[4] = {};
  if (kConverts) {
    for (size_t i = 0; i <= states; ++i) grads_at[i] = plan.add<C>(in[i].size());
    for (size_t i = 0; i < out.size(); ++i) results_at[i] = plan.add<C>(out[i].size());
  }
  // Without a reserve, runs forward again; its results are in memory that is reused afterwards.
  ScratchPlan again = plan;
  const size_t reserve_at = again.add(reserve_layout.bytes);
  const size_t output_at = again.add<C>(in[0].size()), state_at = again.add<C>(in[1].size());
  const size_t cell_at = again.add<C>(states == 2 ? in[2].size() : 0);
  const RnnForwardPass<C> forward(p, s, /*save=*/true, again);
  std::byte* scratch =
      static_cast<std::byte*>(ctx.scratch(p.has_reserve ? plan.bytes() : again.bytes()));

  const RnnOperands<C> given = loader.load(scratch);
  void* reserve = in.back().data;
  if (!p.has_reserve) {
    reserve = scratch + reserve_at;
    forward.run(given,
                {part<C>(scratch, output_at), part<C>(scratch, state_at),
                 states == 2 ? part<C>(scratch, cell_at) : nullptr},
                reserve, scratch, nullptr);
  }
  const C* grads[3] = {};
  for (size_t i = 0; i <= states; ++i) {
    grads[i] = kConverts ? part<C>(scratch, grads_at[i]) : in[i].as<C>();
    if constexpr (kConverts) convert(in[i].as<T>(), part<C>(scratch, grads_at[i]), in[i].size());
  }
  C* results[4] = {};
  for (size_t i = 0; i < out.size(); ++i)
    results[i] = kConverts ? part<C>(scratch, results_at[i]) : out[i].as<C>();
  pass.run(given, {grads[0], grads[1], grads[2]}, reserve, scratch,
           {p.data_grad ? results[0] : nullptr, p.parameters_grad ? results[1] : nullptr,
            results[2], results[3]});
  if constexpr (kConverts)
    for (size_t i = 0; i < out.size(); ++i) convert(results[i], out[i].as<T>(), out[i].size());
}

void rnn_backward_native(KernelContext& ctx, const RnnGradParams& p, Inputs in, Outputs out) {
  dispatch_floating("RNN", in[0].dtype, [&]<class T>(T) { backward<T>(ctx, p, in, out); });
}

}  // namespace
}  // namespace cpu

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<cpu::rnn_backward_native>>("_rnn_backward", {.inline_ok = false});
});

}  // namespace mxlite
