// The random numbers of a call inside a kernel: philox(state.seed, state.offset + i) of
// cpp/core/random.h, which gives the same numbers as the CPU kernel of the operator.
#pragma once
#include "cpp/core/random.h"
#include "cpp/ops/kernel.h"

namespace mxlite::cuda {

// Passed to kernels by value.
struct DeviceRandom {
  RandomState state;
  const RandomState* base;  // device memory, see KernelContext::device_random

  __device__ RandomState load() const {
    return base ? RandomState{base->seed, base->offset + state.offset} : state;
  }
};

inline DeviceRandom device_random(const KernelContext& ctx) {
  return {ctx.random, ctx.device_random};
}

}  // namespace mxlite::cuda
