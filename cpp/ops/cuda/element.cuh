// Elements in device code. Kernels are instantiated for the few types in which they compute. The
// dtype in memory is a run-time value that is equal for all threads, so branching on it costs
// almost nothing.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cpp/core/dtype.h"

namespace mxlite::cuda {

// Maps a storage type to the device's own type with the same bits.
template <class T>
struct ElementOf {
  using Type = T;
};
template <>
struct ElementOf<float16> {
  using Type = __half;
};
template <>
struct ElementOf<bfloat16> {
  using Type = __nv_bfloat16;
};
template <class T>
using Element = typename ElementOf<T>::Type;

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

// The compute type of T: float for 16-bit floats, T otherwise.
template <class T>
using AccOf = std::conditional_t<kIsHalf<T>, float, T>;

// Like dispatch_floating and dispatch_dtype, but fn gets the device's types.
void dispatch_float_elements(const char* op, DType dtype, auto&& fn) {
  dispatch_floating(op, dtype, [&]<class T>(T) { fn(Element<T>{}); });
}
void dispatch_elements(DType dtype, auto&& fn) {
  dispatch_dtype(dtype, [&]<class T>(T) { fn(Element<T>{}); });
}

// Converts between any two element types. 16-bit floats are converted via float; floats become
// small integers modulo 2^n.
template <class To, class From>
__host__ __device__ __forceinline__ To convert(From v) {
  if constexpr (std::is_same_v<To, From>)
    return v;
  else if constexpr (std::is_same_v<From, __half>)
    return convert<To>(__half2float(v));
  else if constexpr (std::is_same_v<From, __nv_bfloat16>)
    return convert<To>(__bfloat162float(v));
  else if constexpr (std::is_same_v<To, __half>)
    return __float2half_rn(static_cast<float>(v));
  else if constexpr (std::is_same_v<To, __nv_bfloat16>)
    return __float2bfloat16_rn(static_cast<float>(v));
  else if constexpr (std::is_same_v<To, bool>)
    return v != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 8)
    return static_cast<To>(static_cast<int64_t>(v));
  else
    return static_cast<To>(v);
}

// N adjacent elements, accessed by as few wide instructions as their size allows.
template <class T, int N>
struct alignas(sizeof(T) * N >= 16 ? 16 : sizeof(T) * N) Pack {
  T v[N];
};

// Returns whether packs of any size may begin at `data`.
inline bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// Stores a pack to global memory. The compiler may divide an assignment into stores of elements, so
// each whole word of 4, 8 or 16 bytes is stored by an explicit instruction.
template <class T, int N>
__device__ __forceinline__ void store_vectors(Pack<T, N>* to, const Pack<T, N>& pack) {
#ifdef __CUDA_ARCH__
  using Word = std::conditional_t<sizeof(pack) % 16 == 0, uint4,
                                  std::conditional_t<sizeof(pack) == 8, uint2, unsigned>>;
  if constexpr (sizeof(pack) % sizeof(Word) == 0 && N > 1) {
    constexpr int kCount = sizeof(pack) / sizeof(Word);
    Word words[kCount];
    memcpy(words, &pack, sizeof(pack));
#pragma unroll
    for (int i = 0; i < kCount; ++i) __stwb(reinterpret_cast<Word*>(to) + i, words[i]);
    return;
  }
#endif
  *to = pack;
}

template <class T, class C, int N>
__device__ __forceinline__ void load_pack(const void* data, int64_t i, C (&out)[N]) {
  const auto x = *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(data) + i);
#pragma unroll
  for (int k = 0; k < N; ++k) out[k] = convert<C>(x.v[k]);
}
template <class T, class C, int N>
__device__ __forceinline__ void store_pack(void* data, int64_t i, const C (&in)[N]) {
  Pack<T, N> x;
#pragma unroll
  for (int k = 0; k < N; ++k) x.v[k] = convert<T>(in[k]);
  store_vectors(reinterpret_cast<Pack<T, N>*>(static_cast<T*>(data) + i), x);
}

// Calls fn(T{}) for the dtypes whose compute type is C: float16, bfloat16 and float32 for float;
// float64 and integers for double; integers for their own or a wider integer type.
template <class C, class F>
__device__ __forceinline__ void for_dtype_of(DType dtype, F&& fn) {
  if constexpr (std::is_same_v<C, float>) {
    if (dtype == DType::kFloat32)
      fn(float{});
    else if (dtype == DType::kFloat16)
      fn(__half{});
    else
      fn(__nv_bfloat16{});
  } else if constexpr (std::is_same_v<C, uint64_t>) {
    fn(uint64_t{});
  } else {
    switch (dtype) {
      case DType::kFloat64:
        if constexpr (std::is_same_v<C, double>) fn(double{});
        break;
      case DType::kInt64:
        if constexpr (sizeof(C) == 8) fn(int64_t{});
        break;
      case DType::kUInt64:
        if constexpr (std::is_same_v<C, double>) fn(uint64_t{});
        break;
      case DType::kUInt32:
        if constexpr (sizeof(C) == 8) fn(uint32_t{});
        break;
      case DType::kInt32:
        fn(int32_t{});
        break;
      case DType::kInt16:
        fn(int16_t{});
        break;
      case DType::kUInt16:
        fn(uint16_t{});
        break;
      case DType::kInt8:
        fn(int8_t{});
        break;
      case DType::kUInt8:
        fn(uint8_t{});
        break;
      case DType::kBool:
        fn(bool{});
        break;
      default:
        break;
    }
  }
}

// Returns whether arrays of this dtype are accessed in packs if the compute type is C. Elements of
// other dtypes are accessed one by one, which keeps kernels small.
template <class C>
inline bool moves_in_packs(DType dtype) {
  if constexpr (std::is_same_v<C, float>)
    return true;
  else
    return dtype == DTypeOf<C>::value;
}
template <class C, class F>
__device__ __forceinline__ void for_packed_dtype(DType dtype, F&& fn) {
  if constexpr (std::is_same_v<C, float>)
    for_dtype_of<float>(dtype, fn);
  else
    fn(C{});
}

// Calls fn(T{}) for every dtype.
__device__ __forceinline__ void for_any_dtype(DType dtype, auto&& fn) {
  if (dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16)
    for_dtype_of<float>(dtype, fn);
  else
    for_dtype_of<double>(dtype, fn);
}

template <class C>
__device__ __forceinline__ C load_as(const void* data, DType dtype, int64_t i) {
  C value = C(0);
  for_dtype_of<C>(dtype, [&]<class T>(T) { value = convert<C>(static_cast<const T*>(data)[i]); });
  return value;
}
template <class C>
__device__ __forceinline__ void store_as(void* data, DType dtype, int64_t i, C value) {
  for_dtype_of<C>(dtype, [&]<class T>(T) { static_cast<T*>(data)[i] = convert<T>(value); });
}
template <class C>
__device__ __forceinline__ C load_any(const void* data, DType dtype, int64_t i) {
  C value = C(0);
  for_any_dtype(dtype, [&]<class T>(T) { value = convert<C>(static_cast<const T*>(data)[i]); });
  return value;
}
template <class C>
__device__ __forceinline__ void store_any(void* data, DType dtype, int64_t i, C value) {
  for_any_dtype(dtype, [&]<class T>(T) { static_cast<T*>(data)[i] = convert<T>(value); });
}

}  // namespace mxlite::cuda
