// The gradient that a relu after BatchNorm passes.
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
  // `y` is the output of relu, or its bit if there is one. `centered` is x - mean.
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

}  // namespace mxlite::cuda
