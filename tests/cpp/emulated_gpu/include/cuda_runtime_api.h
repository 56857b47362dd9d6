// A small part of the CUDA runtime and of CUDA C++ for g++: kernels run on the CPU, thread by
// thread. It has only what mxlite's kernels use.
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
// One block at a time runs in a thread of the host.
#define __shared__ static thread_local
#define MX_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(emulation::dynamic_shared())

enum cudaError_t { cudaSuccess = 0, cudaErrorUnknown = 999 };
using cudaStream_t = struct EmulatedStream*;
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice, cudaMemcpyHostToDevice, cudaMemcpyDefault };

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3() = default;
  dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}  // NOLINT: as CUDA's
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
extern thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace emulation {

// Runs every thread of every block through `thread`, blocks one after the other.
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread);
void* dynamic_shared();  // shared memory of the block
void sync_block();
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

template <class T>
T atomicAdd(T* to, T v) {  // all threads are one thread of the host
  const T before = *to;
  *to = static_cast<T>(before + v);
  return before;
}
template <class T>
T atomicMax(T* to, T v) {
  const T before = *to;
  if (v > before) *to = v;
  return before;
}

using __half = mxlite::float16;
using __nv_bfloat16 = mxlite::bfloat16;
inline float __half2float(__half v) { return v; }
inline __half __float2half_rn(float v) { return v; }
inline float __bfloat162float(__nv_bfloat16 v) { return v; }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return v; }
inline uint32_t __float_as_uint(float v) { return std::bit_cast<uint32_t>(v); }
inline float __uint_as_float(uint32_t v) { return std::bit_cast<float>(v); }
inline long long __double_as_longlong(double v) { return std::bit_cast<long long>(v); }
