#include "cpp/ops/nn/rnn.h"

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/rnn_pass.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace cpu {

template <class C>
RnnOperands<C> RnnLoader<C>::load(void* scratch) const {
  RnnOperands<C> result;
  const C** slots[] = {&result.data, &result.parameters, &result.state, &result.cell};
  for (size_t i = 0; i < count(); ++i)
    dispatch_floating("RNN", in_[i].dtype, [&]<class T>(T) {
      if constexpr (std::is_same_v<T, C>) {
        *slots[i] = in_[i].as<T>();
      } else {
        C* values = part<C>(scratch, at_[i]);
        convert(in_[i].as<T>(), values, in_[i].size());
        *slots[i] = values;
      }
    });
  if (params_.use_sequence_length) {
    const TensorRef& given = in_[count()];
    auto* lengths = part<int64_t>(scratch, lengths_at_);
    dispatch_dtype(given.dtype, [&]<class T>(T) {
      for (int64_t n = 0; n < given.size(); ++n)
        lengths[n] = static_cast<int64_t>(given.as<T>()[n]);
    });
    result.lengths = lengths;
  }
  return result;
}

int rnn_threads(const RnnSizes& s) {
  const int64_t products = s.batch * s.gates * s.hidden * s.out();  // between two barriers
  return threads_for(static_cast<double>(products) * kProductNanoseconds);
}

RnnClip rnn_clip(const RnnParams& p) {
  if (!p.clips()) return {};
  return {true, p.lstm_state_clip_nan, *p.lstm_state_clip_min, *p.lstm_state_clip_max};
}

template <class C>
RnnForwardPass<C>::RnnForwardPass(const RnnParams& p, const RnnSizes& s, bool save,
                                  ScratchPlan& plan)
    : params_(p),
      sizes_(s),
      blocks_(s, sizeof(C)),
      reserve_(s, sizeof(C)),
      save_(save),
      threads_(rnn_threads(s)) {
  // The products of a chunk stay in the threads' L2 caches until the chunk's steps use them.
  constexpr int64_t kChunkBytes = 1 << 19, kLeastRows = 64;
  const int64_t step_bytes =
      std::max<int64_t>(blocks_.blocks * blocks_.width * s.batch * sizeof(C), 1);
  const int64_t batch = std::max<int64_t>(s.batch, 1);
  chunk_ = std::max(kChunkBytes * threads_ / step_bytes, (kLeastRows + batch - 1) / batch);
  chunk_ = std::clamp<int64_t>(chunk_, 1, std::max<int64_t>(s.steps, 1));
  int64_t packed = 0;
  for (int64_t l = 0; l < s.layers; ++l)
    packed = std::max(packed, rnn_forward_packed(s, blocks_, s.layer_input(l)));
  packed_ = plan.add<C>(packed);
  if (save) return;
  gates_ = plan.add<C>(blocks_.blocks * blocks_.width * s.batch * chunk_);
  hidden_ = plan.add<C>(2 * s.batch * blocks_.out_pad);
  cell_ = plan.add<C>(2 * s.batch * blocks_.hidden_pad);
  inner_ = plan.add<C>(s.projection ? s.batch * blocks_.hidden_pad : 0);
  for (int i = 0; i < std::min<int64_t>(s.layers - 1, 2); ++i)
    outputs_[i] = plan.add<C>(s.rows() * s.directions * s.out());
}

template <class C>
void RnnForwardPass<C>::drop(C* values, uint8_t* mask, int64_t layer,
                             const RandomState& random) const {
  const int64_t count = sizes_.rows() * sizes_.directions * sizes_.out();
  const float p = params_.p;
  const C scale = C(1) / (C(1) - static_cast<C>(p));
  const uint64_t offset = random.offset + static_cast<uint64_t>(layer * (count / 4 + 1));
  parallel_for((count + 3) / 4, 16, [&](int64_t quad) {
    const auto bits = philox(random.seed, offset + static_cast<uint64_t>(quad));
    for (int64_t i = quad * 4; i < std::min(quad * 4 + 4, count); ++i) {
      mask[i] = to_uniform(bits[i % 4]) >= p;
      values[i] = mask[i] ? values[i] * scale : C(0);
    }
  });
}

template <class C>
void RnnForwardPass<C>::run(const RnnOperands<C>& in, const RnnResults<C>& out, void* reserve,
                            void* scratch, const RandomState* random) const {
  const RnnSizes& s = sizes_;
  const C* input = in.data;
  for (int64_t l = 0; l < s.layers; ++l) {
    C* output = out.output;
    if (l + 1 < s.layers)
      output = save_ ? part<C>(reserve, reserve_.layer_input + reserve_.layer_input_bytes * l)
                     : part<C>(scratch, outputs_[l % 2]);
    for (int64_t d = 0; d < s.directions; ++d) {
      const int64_t index = l * s.directions + d;
      RnnForward<C> layer{{s, blocks_, rnn_clip(params_)}};
      layer.inputs = s.layer_input(l);
      layer.reverse = d == 1;
      layer.threads = threads_;
      layer.lengths = in.lengths;
      const int64_t gate_rows = s.gates * s.hidden;
      layer.weight_input = in.parameters + s.weight_offset(l, d);
      layer.weight_hidden = layer.weight_input + gate_rows * layer.inputs;
      if (s.projection) layer.weight_out = layer.weight_hidden + gate_rows * s.out();
      layer.bias_input = in.parameters + s.bias_offset(l, d);
      layer.bias_hidden = layer.bias_input + gate_rows;
      layer.data = input;
      layer.first_hidden = in.state + index * s.batch * s.out();
      layer.last_hidden = out.state + index * s.batch * s.out();
      if (in.cell) {
        layer.first_cell = in.cell + index * s.batch * s.hidden;
        layer.last_cell = out.cell + index * s.batch * s.hidden;
      }
      layer.chunk = chunk_;
      layer.save = save_;
      if (save_) {
        const RnnKept<C> kept(reserve_, reserve, index);
        layer.gates = kept.gates;
        layer.hidden_slots = kept.hidden;
        layer.cell_slots = kept.cell;
        layer.recurrent = kept.recurrent;
        layer.inner = kept.inner;
      } else {
        layer.gates = part<C>(scratch, gates_);
        layer.hidden_slots = part<C>(scratch, hidden_);
        layer.cell_slots = part<C>(scratch, cell_);
        layer.inner = part<C>(scratch, inner_);
      }
      layer.packed = part<C>(scratch, packed_);
      layer.output = output + d * s.out();
      layer.output_stride = s.directions * s.out();
      rnn_forward(layer);
    }
    if (save_ && s.dropout && random && l + 1 < s.layers)
      drop(output, part<uint8_t>(reserve, reserve_.mask + reserve_.mask_bytes * l), l, *random);
    input = output;
  }
}

template class RnnLoader<float>;
template class RnnLoader<double>;
template class RnnForwardPass<float>;
template class RnnForwardPass<double>;

}  // namespace cpu

namespace {

template <class T>
void forward(KernelContext& ctx, const RnnParams& p, Inputs in, Outputs out) {
  using C = ComputeType<T>;
  constexpr bool kConverts = !std::is_same_v<T, C>;
  const RnnSizes s(p, in[0].shape);
  const size_t results = p.is_lstm() ? 3 : 2;
  cpu::ScratchPlan plan;
  const cpu::RnnLoader<C> loader(p, in, plan);
  const cpu::RnnForwardPass<C> pass(p, s, ctx.training, plan);
  size_t at[3] = {};
  if (kConverts)
    for (size_t i = 0; i < results; ++i) at[i] = plan.add<C>(out[i].size());
  void* scratch = ctx.scratch(plan.bytes());

  C* values[3] = {};
  for (size_t i = 0; i < results; ++i)
    values[i] = kConverts ? cpu::part<C>(scratch, at[i]) : out[i].as<C>();
  pass.run(loader.load(scratch), {values[0], values[1], values[2]}, out[results].data, scratch,
           &ctx.random);
  if constexpr (kConverts)
    for (size_t i = 0; i < results; ++i) cpu::convert(values[i], out[i].as<T>(), out[i].size());
}

void rnn_native(KernelContext& ctx, const RnnParams& p, Inputs in, Outputs out) {
  dispatch_floating("RNN", in[0].dtype, [&]<class T>(T) { forward<T>(ctx, p, in, out); });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<rnn_native>>("RNN", {.inline_ok = false});
});

}  // namespace mxlite
