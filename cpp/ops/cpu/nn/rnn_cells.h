// One step of the recurrent cells for one row and one block of units. Included once per instruction
// set, like rnn_tile.h.
#pragma once
#include <cmath>

#include "cpp/ops/cpu/nn/rnn_steps.h"
#include "cpp/ops/pointwise/math.h"

namespace mxlite::cpu {
namespace {

// Activation functions of gates. The float versions are simpler than the functions of math.h:
// exponents are never positive, so that one factor scales them, and tanh always uses expm1.
MX_INLINE pointwise::ExpParts split_decay(float x) {
  return pointwise::split_exponent(x < -87.0f ? -87.0f : x);  // keeps NaN
}
MX_INLINE float sigmoid_of(float x) {
  const pointwise::ExpParts p = split_decay(-std::fabs(x));
  const float e = (1.0f + pointwise::expm1_reduced(p.rest)) * pointwise::power_of_two(p.n);
  const float positive = 1.0f / (1.0f + e);
  return x < 0.0f ? e * positive : positive;
}
MX_INLINE float tanh_of(float x) {
  const pointwise::ExpParts p = split_decay(-2.0f * std::fabs(x));
  const float scale = pointwise::power_of_two(p.n);
  // Computes e^-2|x| - 1.
  const float minus = pointwise::expm1_reduced(p.rest) * scale + (scale - 1.0f);
  return std::copysign(minus / (2.0f + minus), x);
}
MX_INLINE double sigmoid_of(double x) { return pointwise::sigmoid_of(x); }
MX_INLINE double tanh_of(double x) { return pointwise::tanh_of(x); }

template <class T>
MX_INLINE T clip_state(const RnnClip& clip, T c) {
  const T low = static_cast<T>(clip.low), high = static_cast<T>(clip.high);
  const T bounded = c < low ? low : c > high ? high : c;  // keeps NaN
  return clip.nan && !(c == c) ? low : bounded;
}

// `gates`: i, f, g, o before their activation, and after it on return.
template <class T>
MX_INLINE void lstm_forward(T* __restrict gates, const T* __restrict cell, const RnnClip& clip,
                            T* __restrict next_cell, T* __restrict out) {
  constexpr int64_t kLanes = Lanes<T>::kCount;
  T c[kLanes];
  for (int64_t u = 0; u < kLanes; ++u) {
    const T i = sigmoid_of(gates[u]), f = sigmoid_of(gates[kLanes + u]);
    const T g = tanh_of(gates[2 * kLanes + u]);
    gates[u] = i;
    gates[kLanes + u] = f;
    gates[2 * kLanes + u] = g;
    c[u] = f * cell[u] + i * g;
  }
  if (clip.active)
    for (int64_t u = 0; u < kLanes; ++u) c[u] = clip_state(clip, c[u]);
  for (int64_t u = 0; u < kLanes; ++u) {
    const T o = sigmoid_of(gates[3 * kLanes + u]);
    gates[3 * kLanes + u] = o;
    next_cell[u] = c[u];
    out[u] = o * tanh_of(c[u]);
  }
}

// `gates`: r, z, n of the input with all biases except that of `hidden`; on return, the activated
// gates. `hidden`: the recurrent products.
template <class T>
MX_INLINE void gru_forward(T* __restrict gates, const T* __restrict hidden,
                           const T* __restrict state, T* __restrict next) {
  constexpr int64_t kLanes = Lanes<T>::kCount;
  for (int64_t u = 0; u < kLanes; ++u) {
    const T r = sigmoid_of(gates[u] + hidden[u]);
    const T z = sigmoid_of(gates[kLanes + u] + hidden[kLanes + u]);
    const T n = tanh_of(gates[2 * kLanes + u] + r * hidden[2 * kLanes + u]);
    gates[u] = r;
    gates[kLanes + u] = z;
    gates[2 * kLanes + u] = n;
    next[u] = (T(1) - z) * n + z * state[u];
  }
}

template <class T>
MX_INLINE void vanilla_forward(bool relu, int64_t units, T* __restrict gates, T* __restrict next) {
  if (relu) {
    for (int64_t u = 0; u < units; ++u) gates[u] = gates[u] < T(0) ? T(0) : gates[u];
  } else {
    for (int64_t u = 0; u < units; ++u) gates[u] = tanh_of(gates[u]);
  }
  std::copy_n(gates, units, next);
}

// `grads`: gradients of i, f, g, o before their activation.
template <class T>
MX_INLINE void lstm_backward(const T* __restrict gates, const T* __restrict cell,
                             const T* __restrict next_cell, const RnnClip& clip,
                             const T* __restrict out_grad, T* __restrict cell_grad,
                             T* __restrict grads) {
  constexpr int64_t kLanes = Lanes<T>::kCount;
  const T low = static_cast<T>(clip.low), high = static_cast<T>(clip.high);
  for (int64_t u = 0; u < kLanes; ++u) {
    const T i = gates[u], f = gates[kLanes + u], g = gates[2 * kLanes + u];
    const T o = gates[3 * kLanes + u];
    const T y = tanh_of(next_cell[u]);
    T c = cell_grad[u] + out_grad[u] * o * (T(1) - y * y);
    if (clip.active) c = next_cell[u] > low && next_cell[u] < high ? c : T(0);
    grads[u] = c * g * i * (T(1) - i);
    grads[kLanes + u] = c * cell[u] * f * (T(1) - f);
    grads[2 * kLanes + u] = c * i * (T(1) - g * g);
    grads[3 * kLanes + u] = out_grad[u] * y * o * (T(1) - o);
    cell_grad[u] = c * f;
  }
}

// `grads`: gradients of the input's n, r, z and of the recurrent n, before their activation.
// `carried`: the part of the state's gradient that does not pass through the weights.
template <class T>
MX_INLINE void gru_backward(const T* __restrict gates, const T* __restrict recurrent,
                            const T* __restrict state, const T* __restrict out_grad,
                            T* __restrict carried, T* __restrict grads) {
  constexpr int64_t kLanes = Lanes<T>::kCount;
  for (int64_t u = 0; u < kLanes; ++u) {
    const T r = gates[u], z = gates[kLanes + u], n = gates[2 * kLanes + u];
    const T new_grad = out_grad[u] * (T(1) - z) * (T(1) - n * n);
    grads[u] = new_grad;
    grads[kLanes + u] = new_grad * recurrent[u] * r * (T(1) - r);
    grads[2 * kLanes + u] = out_grad[u] * (state[u] - n) * z * (T(1) - z);
    grads[3 * kLanes + u] = new_grad * r;
    carried[u] = out_grad[u] * z;
  }
}

template <class T>
MX_INLINE void vanilla_backward(bool relu, int64_t units, const T* __restrict gates,
                                const T* __restrict out_grad, T* __restrict grads) {
  for (int64_t u = 0; u < units; ++u)
    grads[u] = out_grad[u] * (relu ? (gates[u] > T(0) ? T(1) : T(0)) : T(1) - gates[u] * gates[u]);
}

}  // namespace
}  // namespace mxlite::cpu
