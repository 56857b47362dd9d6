// The gradient that a relu after BatchNorm passes, and the terms that BatchNorm adds up.
#pragma once
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/nn/batch_norm.h"

namespace mxlite::cuda {

// Passes gradients where relu passed values, see BatchNormGradCall; without a relu, passes all
// gradients.
template <class T>
struct ReluGate {
  using Acc = AccOf<T>;
  const T* output = nullptr;
  const uint8_t* bits = nullptr;
  const void *beta = nullptr, *gamma = nullptr, *inv_std = nullptr;
  DType stats_dtype = DType::kFloat32;

  __device__ __forceinline__ Acc scale(int64_t c) const {
    if (!beta) return Acc(0);
    const Acc inverse = load_as<Acc>(inv_std, stats_dtype, c);
    return gamma ? load_as<Acc>(gamma, stats_dtype, c) * inverse : inverse;
  }
  __device__ __forceinline__ Acc shift(int64_t c) const {
    return beta ? load_as<Acc>(beta, stats_dtype, c) : Acc(0);
  }
  template <int V>
  __device__ __forceinline__ void load(int64_t at, Acc (&y)[V]) const {
    static_assert(8 % V == 0, "the bits of a pack lie in one byte");
    if (output) load_pack<T>(output, at, y);
    if (!bits) return;
    const unsigned passed = bits[at / 8] >> (at % 8);
#pragma unroll
    for (int k = 0; k < V; ++k) y[k] = passed >> k & 1 ? Acc(1) : Acc(0);
  }
  // `y` is relu's output or, with `bits`, 1 where relu's output is positive, else 0. `centered` is
  // x - mean.
  __device__ __forceinline__ Acc passed(Acc g, Acc y, Acc centered, Acc scale, Acc shift) const {
    if (output || bits) return y > Acc(0) ? g : Acc(0);
    if (beta) return centered * scale + shift > Acc(0) ? g : Acc(0);
    return g;
  }
};
template <class T>
ReluGate<T> make_gate(const BatchNormGradCall& call) {
  return {static_cast<const T*>(call.relu_output), call.relu_bits, call.relu_beta,
          call.fix_gamma ? nullptr : call.gamma,   call.inv_std,   call.stats_dtype};
}

// The summed terms. Forward: x - pivot and its square. Backward: grad and grad * (x - mean).
template <class T, bool backward>
struct Terms {
  using Acc = AccOf<T>;
  const T* x;
  const T* grad;
  const void* mean;
  DType stats_dtype;
  int64_t inner;
  ReluGate<T> gate;
  const T* other_grad = nullptr;  // optional: added to grad
  T* passed_grad = nullptr;       // optional: receives the gradients that the gate passes

  __device__ __forceinline__ Acc center(int64_t c) const {
    if constexpr (backward) return load_as<Acc>(mean, stats_dtype, c);
    return convert<Acc>(x[c * inner]);
  }
  // V adjacent elements, their output gradients, and the values that the gate reads for them.
  template <int V>
  struct Loaded {
    Acc v[V], g[V], y[V];
  };
  template <int V>
  __device__ __forceinline__ Loaded<V> load(int64_t at) const {
    Loaded<V> l{};
    load_pack<T>(x, at, l.v);
    if constexpr (backward) {
      load_pack<T>(grad, at, l.g);
      gate.load(at, l.y);
      if (other_grad) {
        Acc other[V];
        load_pack<T>(other_grad, at, other);
#pragma unroll
        for (int k = 0; k < V; ++k) l.g[k] = convert<Acc>(convert<T>(l.g[k] + other[k]));
      }
    }
    return l;
  }
  // Adds the terms of the elements from `at` on. The arrays contain the channel's value for each
  // element of the pack.
  template <int V>
  __device__ __forceinline__ void add(int64_t at, Loaded<V> l, const Acc (&middle)[V],
                                      const Acc (&scale)[V], const Acc (&shift)[V], Acc (&first)[V],
                                      Acc (&second)[V]) const {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      l.v[k] -= middle[k];
      if constexpr (backward) l.g[k] = gate.passed(l.g[k], l.y[k], l.v[k], scale[k], shift[k]);
      first[k] += backward ? l.g[k] : l.v[k];
      second[k] += backward ? l.g[k] * l.v[k] : l.v[k] * l.v[k];
    }
    if constexpr (backward)
      if (passed_grad) store_pack<T>(passed_grad, at, l.g);
  }
};

}  // namespace mxlite::cuda
