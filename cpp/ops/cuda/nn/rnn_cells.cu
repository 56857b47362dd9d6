#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/nn/rnn_cells.h"
#include "cpp/ops/cuda/random.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/pointwise/math.h"

namespace mxlite::cuda {
namespace {

using pointwise::sigmoid_of;
using pointwise::tanh_of;

__device__ inline bool counts(const RnnLayer& layer, int64_t step, int64_t row) {
  if (!layer.lengths) return true;
  return step < static_cast<int64_t>(load_any<double>(layer.lengths, layer.lengths_dtype, row));
}

template <class C>
__device__ C clipped(const RnnLayer& layer, C c) {
  if (!layer.clips) return c;
  const C low = static_cast<C>(layer.clip_min), high = static_cast<C>(layer.clip_max);
  if (c != c) return layer.clip_nan ? low : c;
  return c < low ? low : c > high ? high : c;
}

// Unit u of row n, and its gates.
template <class C>
struct Unit {
  const RnnLayer& layer;
  int64_t row, unit;
  __device__ Unit(const RnnLayer& l, int64_t i) : layer(l), row(i / l.hidden), unit(i % l.hidden) {}
  __device__ int64_t at() const { return row * layer.hidden + unit; }
  __device__ int64_t gate(int gates, int g) const {
    return (row * gates + g) * layer.hidden + unit;
  }
  __device__ C load(const void* data, int64_t i) const { return load_as<C>(data, layer.dtype, i); }
  __device__ void store(void* data, int64_t i, C v) const { store_as<C>(data, layer.dtype, i, v); }
  __device__ C bias(const void* data, int g) const { return load(data, g * layer.hidden + unit); }
};

template <class C>
__global__ void forward_kernel(int64_t n, const __grid_constant__ RnnLayer layer,
                               const __grid_constant__ RnnForwardStep s) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Unit<C> u(layer, i);
    const int gates = layer.mode == RnnMode::kLstm ? 4 : layer.mode == RnnMode::kGru ? 3 : 1;
    C x[4], h[4];
    for (int g = 0; g < gates; ++g) {
      x[g] = u.load(s.gates, u.gate(gates, g)) + u.bias(layer.bias_input, g);
      h[g] = u.load(s.product, u.gate(gates, g)) + u.bias(layer.bias_hidden, g);
    }
    C result;
    if (layer.mode == RnnMode::kLstm) {
      const C in = sigmoid_of(x[0] + h[0]), forget = sigmoid_of(x[1] + h[1]);
      const C fresh = tanh_of(x[2] + h[2]), out = sigmoid_of(x[3] + h[3]);
      const C before = u.load(s.cell_before, u.at());
      const C cell = clipped(layer, forget * before + in * fresh);
      x[0] = in;
      x[1] = forget;
      x[2] = fresh;
      x[3] = out;
      u.store(s.cell, u.at(), counts(layer, s.step, u.row) ? cell : before);
      result = out * tanh_of(cell);
    } else if (layer.mode == RnnMode::kGru) {
      const C reset = sigmoid_of(x[0] + h[0]), update = sigmoid_of(x[1] + h[1]);
      const C fresh = tanh_of(x[2] + reset * h[2]);
      x[0] = reset;
      x[1] = update;
      x[2] = fresh;
      u.store(s.recurrent, u.at(), h[2]);
      result = (C(1) - update) * fresh + update * u.load(s.state_before, u.at());
    } else {
      const C sum = x[0] + h[0];
      result = x[0] = layer.mode == RnnMode::kRelu ? (sum < C(0) ? C(0) : sum) : tanh_of(sum);
    }
    for (int g = 0; g < gates; ++g) u.store(s.gates, u.gate(gates, g), x[g]);
    u.store(s.inner ? s.inner : s.state, u.at(), result);
  }
}

template <class C>
__global__ void store_kernel(int64_t n, const __grid_constant__ RnnLayer layer,
                             const __grid_constant__ RnnStore s) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t row = i / layer.out, unit = i % layer.out;
    const bool counted = counts(layer, s.step, row);
    const C value = load_as<C>(!counted      ? s.state_before
                               : s.projected ? s.projected
                                             : s.state,
                               layer.dtype, i);
    store_as<C>(s.state, layer.dtype, i, value);
    store_as<C>(s.output, layer.dtype, row * s.output_stride + unit, counted ? value : C(0));
  }
}

template <class C>
__global__ void output_grad_kernel(int64_t n, const __grid_constant__ RnnLayer layer,
                                   const __grid_constant__ RnnOutputGrad s) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t row = i / layer.out, unit = i % layer.out;
    const C next = load_as<C>(s.state_grad, layer.dtype, i);
    const bool counted = counts(layer, s.step, row);
    const C above = load_as<C>(s.output_grad, layer.dtype, row * s.output_stride + unit);
    store_as<C>(s.active, layer.dtype, i, counted ? above + next : C(0));
    store_as<C>(s.state_grad, layer.dtype, i, counted ? C(0) : next);
  }
}

template <class C>
__global__ void backward_kernel(int64_t n, const __grid_constant__ RnnLayer layer,
                                const __grid_constant__ RnnBackwardStep s) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Unit<C> u(layer, i);
    const int gates = layer.mode == RnnMode::kLstm ? 4 : layer.mode == RnnMode::kGru ? 3 : 1;
    C x[4], grads[4] = {0, 0, 0, 0};
    for (int g = 0; g < gates; ++g) x[g] = u.load(s.gates, u.gate(gates, g));
    const C grad = u.load(s.inner_grad, u.at());
    C recurrent_grad = 0;  // gru: gradient of the recurrent part of the new gate
    if (!counts(layer, s.step, u.row)) {
      // No gradient passes through the cell; the gradients of the states are not changed.
    } else if (layer.mode == RnnMode::kLstm) {
      const C cell = u.load(s.cell, u.at()), y = tanh_of(cell);
      C c = u.load(s.cell_grad, u.at()) + grad * x[3] * (C(1) - y * y);
      if (layer.clips)
        c = cell > static_cast<C>(layer.clip_min) && cell < static_cast<C>(layer.clip_max) ? c
                                                                                           : C(0);
      grads[0] = c * x[2] * x[0] * (C(1) - x[0]);
      grads[1] = c * u.load(s.cell_before, u.at()) * x[1] * (C(1) - x[1]);
      grads[2] = c * x[0] * (C(1) - x[2] * x[2]);
      grads[3] = grad * y * x[3] * (C(1) - x[3]);
      u.store(s.cell_grad, u.at(), c * x[1]);
    } else if (layer.mode == RnnMode::kGru) {
      const C fresh = grad * (C(1) - x[1]) * (C(1) - x[2] * x[2]);
      grads[0] = fresh * u.load(s.recurrent, u.at()) * x[0] * (C(1) - x[0]);
      grads[1] = grad * (u.load(s.state_before, u.at()) - x[2]) * x[1] * (C(1) - x[1]);
      grads[2] = fresh;
      recurrent_grad = fresh * x[0];
      u.store(s.state_grad, u.at(), grad * x[1]);
    } else {
      grads[0] =
          grad * (layer.mode == RnnMode::kRelu ? (x[0] > C(0) ? C(1) : C(0)) : C(1) - x[0] * x[0]);
    }
    for (int g = 0; g < gates; ++g) {
      u.store(s.input_grads, u.gate(gates, g), grads[g]);
      if (s.hidden_grads != s.input_grads)
        u.store(s.hidden_grads, u.gate(gates, g), g == 2 ? recurrent_grad : grads[g]);
    }
  }
}

template <class C>
__global__ void sum_columns(int64_t rows, int64_t columns, const void* grads, void* to,
                            DType dtype) {
  for (int64_t c = global_index(); c < columns; c += grid_stride()) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r)
      sum += static_cast<double>(load_as<C>(grads, dtype, r * columns + c));
    store_as<C>(to, dtype, c, static_cast<C>(sum));
  }
}

template <class C>
__global__ void drop_kernel(int64_t count, void* values, uint8_t* mask, DType dtype, float p,
                            uint64_t first, const __grid_constant__ DeviceRandom random) {
  const RandomState state = random.load();
  const C scale = C(1) / (C(1) - static_cast<C>(p));
  for (int64_t quad = global_index(); quad * 4 < count; quad += grid_stride()) {
    const auto bits = philox(state.seed, state.offset + first + static_cast<uint64_t>(quad));
    for (int k = 0; k < 4 && quad * 4 + k < count; ++k) {
      const int64_t i = quad * 4 + k;
      mask[i] = to_uniform(bits[k]) >= p;
      store_as<C>(values, dtype, i, mask[i] ? load_as<C>(values, dtype, i) * scale : C(0));
    }
  }
}

template <class C>
__global__ void undrop_kernel(int64_t count, void* values, const uint8_t* mask, DType dtype,
                              float p) {
  const C scale = C(1) / (C(1) - static_cast<C>(p));
  for (int64_t i = global_index(); i < count; i += grid_stride())
    store_as<C>(values, dtype, i, mask[i] ? load_as<C>(values, dtype, i) * scale : C(0));
}

}  // namespace

void rnn_forward_step(KernelContext& ctx, const RnnLayer& layer, const RnnForwardStep& step) {
  const int64_t n = layer.batch * layer.hidden;
  dispatch_float_compute(
      layer.dtype, [&]<class C>(C) { launch_items(ctx, forward_kernel<C>, n, n, layer, step); });
}
void rnn_store(KernelContext& ctx, const RnnLayer& layer, const RnnStore& store) {
  const int64_t n = layer.batch * layer.out;
  dispatch_float_compute(
      layer.dtype, [&]<class C>(C) { launch_items(ctx, store_kernel<C>, n, n, layer, store); });
}
void rnn_output_grad(KernelContext& ctx, const RnnLayer& layer, const RnnOutputGrad& grad) {
  const int64_t n = layer.batch * layer.out;
  dispatch_float_compute(layer.dtype, [&]<class C>(C) {
    launch_items(ctx, output_grad_kernel<C>, n, n, layer, grad);
  });
}
void rnn_backward_step(KernelContext& ctx, const RnnLayer& layer, const RnnBackwardStep& step) {
  const int64_t n = layer.batch * layer.hidden;
  dispatch_float_compute(
      layer.dtype, [&]<class C>(C) { launch_items(ctx, backward_kernel<C>, n, n, layer, step); });
}
void rnn_bias_grad(KernelContext& ctx, DType dtype, const void* grads, int64_t rows,
                   int64_t columns, void* to) {
  dispatch_float_compute(dtype, [&]<class C>(C) {
    launch_items(ctx, sum_columns<C>, columns, rows, columns, grads, to, dtype);
  });
}
void rnn_drop(KernelContext& ctx, DType dtype, void* values, uint8_t* mask, int64_t count, float p,
              int64_t layer) {
  const auto first = static_cast<uint64_t>(layer * (count / 4 + 1));
  dispatch_float_compute(dtype, [&]<class C>(C) {
    launch_items(ctx, drop_kernel<C>, (count + 3) / 4, count, values, mask, dtype, p, first,
                 device_random(ctx));
  });
}
void rnn_undrop(KernelContext& ctx, DType dtype, void* values, const uint8_t* mask, int64_t count,
                float p) {
  dispatch_float_compute(dtype, [&]<class C>(C) {
    launch_items(ctx, undrop_kernel<C>, count, count, values, mask, dtype, p);
  });
}

}  // namespace mxlite::cuda
