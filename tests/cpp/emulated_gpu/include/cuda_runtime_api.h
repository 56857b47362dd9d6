// The part of the CUDA runtime and of CUDA C++ that mxlite's kernels use, for g++. Kernels run on
// the CPU, thread by thread.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "cpp/core/half.h"

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __restrict__
// A marker tells the emulator which function's variables a block uses: blocks take turns with them.
#define __shared__ MX_EMULATED_SHARED(__LINE__)
#define MX_EMULATED_SHARED(line) MX_EMULATED_SHARED_ON(line)
#define MX_EMULATED_SHARED_ON(line)               \
  static const char emulated_shared_##line = 0;   \
  emulation::use_shared(&emulated_shared_##line); \
  static thread_local
#define MX_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(emulation::dynamic_shared())

enum cudaError_t { cudaSuccess = 0, cudaErrorUnknown = 999 };
using cudaStream_t = struct EmulatedStream*;
using cudaEvent_t = struct EmulatedEvent*;
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice, cudaMemcpyHostToDevice, cudaMemcpyDefault };

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3() = default;
  constexpr dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1)  // NOLINT: as CUDA's
      : x(x_), y(y_), z(z_) {}
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
extern constinit thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace emulation {

// Runs every thread of every block through `thread`, in the order that set_order chose.
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread);
void* dynamic_shared();  // shared memory of the block
void use_shared(const void* marker);
void sync_block();
// Called before an access to memory. Other threads may run first.
void before_access();
// Called before and after an atomic operation, and at a fence. Other threads often run there.
void at_atomic();
// Returns the value of the thread `lane ^ step` of the warp.
void exchange(const void* mine, void* other, size_t bytes, int source_lane);
int lane();

}  // namespace emulation

template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...),
                               Args&&... args) {
  const auto thread = [&] { kernel(args...); };
  emulation::run_grid(config->gridDim, config->blockDim, config->dynamicSmemBytes, thread);
  return cudaSuccess;
}

inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "emulated error"; }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}

inline void __syncthreads() { emulation::sync_block(); }
inline void __syncwarp(unsigned = ~0u) {
  char none = 0, got;
  emulation::exchange(&none, &got, 1, emulation::lane());
}
template <class T>
T __shfl_sync(unsigned, T v, int source) {
  T got;
  emulation::exchange(&v, &got, sizeof(T), source);
  return got;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int step) {
  return __shfl_sync(mask, v, emulation::lane() ^ step);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  unsigned bits = predicate ? 1u << emulation::lane() : 0u;
  for (int step = 16; step > 0; step /= 2) bits |= __shfl_xor_sync(mask, bits, step);
  return bits;
}
inline int __popc(unsigned v) { return std::popcount(v); }
inline int __popcll(unsigned long long v) { return std::popcount(v); }

// All threads are one thread of the host, which runs others before and after an atomic operation,
// not inside. Every thread sees all writes in one order, with and without a fence.
inline void __threadfence() { emulation::at_atomic(); }
#define MX_EMULATED_ATOMIC \
  template <class T>       \
  [[gnu::noinline, gnu::no_sanitize("thread")]]
MX_EMULATED_ATOMIC T atomicAdd(T* to, T v) {
  emulation::at_atomic();
  const T before = *to;
  *to = static_cast<T>(before + v);
  emulation::at_atomic();
  return before;
}
MX_EMULATED_ATOMIC T atomicMax(T* to, T v) {
  emulation::at_atomic();
  const T before = *to;
  if (v > before) *to = v;
  emulation::at_atomic();
  return before;
}
#undef MX_EMULATED_ATOMIC

using __half = mxlite::float16;
using __nv_bfloat16 = mxlite::bfloat16;
inline float __half2float(__half v) { return v; }
inline __half __float2half_rn(float v) { return v; }
inline float __bfloat162float(__nv_bfloat16 v) { return v; }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return v; }
inline uint32_t __float_as_uint(float v) { return std::bit_cast<uint32_t>(v); }
inline float __uint_as_float(uint32_t v) { return std::bit_cast<float>(v); }
inline long long __double_as_longlong(double v) { return std::bit_cast<long long>(v); }
