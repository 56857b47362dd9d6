// The loops of VectorKernels. Included once per instruction set, after philox_rounds.h or
// philox_rounds_avx512.h.
#pragma once
#include <algorithm>
#include <cstring>

#include "cpp/ops/cpu/nn/layer_norm_loop.h"
#include "cpp/ops/nn/gelu_forms.h"

namespace mxlite::cpu {
namespace {

template <class T>
concept HalfType = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

// Number of elements that are converted, computed and stored at a time. Loops over 16-bit floats
// vectorize only if conversions are separate loops.
constexpr int64_t kMapBlock = 512;

template <HalfType Half>
void widen(const Half* from, float* to, int64_t n) {
  int64_t i = 0;
  for (; i + kVectorLanes <= n; i += kVectorLanes) store(to + i, load(from + i));
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}
template <HalfType Half>
void narrow(const float* from, Half* to, int64_t n) {
  int64_t i = 0;
  for (; i + kVectorLanes <= n; i += kVectorLanes) store(to + i, load(from + i));
  for (; i < n; ++i) to[i] = static_cast<Half>(from[i]);
}

template <class Form>
void map_values(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = Form::value(x[i]);
}
template <class Form, HalfType Half>
void map_values(const Half* x, Half* y, int64_t n) {
  alignas(64) float block[kMapBlock];
  for (int64_t first = 0; first < n; first += kMapBlock) {
    const int64_t m = std::min(kMapBlock, n - first);
    widen(x + first, block, m);
    map_values<Form>(block, block, m);
    narrow(block, y + first, m);
  }
}

template <class Form>
void map_grads(const float* grad, const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = grad[i] * Form::slope(x[i]);
}
template <class Form, HalfType Half>
void map_grads(const Half* grad, const Half* x, Half* y, int64_t n) {
  alignas(64) float block[2][kMapBlock];
  for (int64_t first = 0; first < n; first += kMapBlock) {
    const int64_t m = std::min(kMapBlock, n - first);
    widen(grad + first, block[0], m);
    widen(x + first, block[1], m);
    map_grads<Form>(block[0], block[1], block[0], m);
    narrow(block[0], y + first, m);
  }
}

template <class Form>
void map_both(const float* grad, const float* x, float* x_grad, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float v = x[i], g = grad[i];
    x_grad[i] = g * Form::slope(v);
    y[i] = Form::value(v);
  }
}
template <class Form, HalfType Half>
void map_both(const Half* grad, const Half* x, Half* x_grad, Half* y, int64_t n) {
  alignas(64) float block[2][kMapBlock];
  for (int64_t first = 0; first < n; first += kMapBlock) {
    const int64_t m = std::min(kMapBlock, n - first);
    widen(grad + first, block[0], m);
    widen(x + first, block[1], m);
    map_both<Form>(block[0], block[1], block[0], block[1], m);
    narrow(block[0], x_grad + first, m);
    narrow(block[1], y + first, m);
  }
}

inline void mask_values(const float* x, const uint8_t* mask, float scale, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = mask[i] != 0 ? x[i] * scale : 0.0f;
}
template <HalfType Half>
void mask_values(const Half* x, const uint8_t* mask, float scale, Half* y, int64_t n) {
  alignas(64) float block[kMapBlock];
  for (int64_t first = 0; first < n; first += kMapBlock) {
    const int64_t m = std::min(kMapBlock, n - first);
    widen(x + first, block, m);
    mask_values(block, mask + first, scale, block, m);
    narrow(block, y + first, m);
  }
}

inline void widen(const float* from, float* to, int64_t n) { std::copy_n(from, n, to); }
inline void narrow(const float* from, float* to, int64_t n) { std::copy_n(from, n, to); }

// A block of products is stored before the addition, because a single loop would not round the
// products.
template <class T>
void mask_and_add_values(const T* x, const uint8_t* mask, float scale, const T* added, T* y,
                         int64_t n) {
  alignas(64) float sum[kMapBlock], other[kMapBlock];
  alignas(64) T dropped[kMapBlock];
  for (int64_t first = 0; first < n; first += kMapBlock) {
    const int64_t m = std::min(kMapBlock, n - first);
    mask_values(x + first, mask + first, scale, dropped, m);
    widen(dropped, sum, m);
    widen(added + first, other, m);
    for (int64_t i = 0; i < m; ++i) sum[i] += other[i];
    narrow(sum, y + first, m);
  }
}

template <class T>
constexpr VectorKernels<T> kVectorKernels = {
    .gelu = map_values<ErfGelu>,
    .gelu_tanh = map_values<TanhGelu>,
    .gelu_backward = map_grads<ErfGelu>,
    .gelu_tanh_backward = map_grads<TanhGelu>,
    .gelu_and_backward = map_both<ErfGelu>,
    .gelu_tanh_and_backward = map_both<TanhGelu>,
    .apply_mask = mask_values,
    .apply_mask_and_add = mask_and_add_values<T>,
    .normalize = normalize_rows<T>,
    .normalize_backward = normalize_rows_backward<T>,
};

void draw_words(uint64_t seed, uint64_t first, int64_t counters, uint32_t threshold,
                uint8_t* mask) {
  constexpr int64_t kCounters = 64;
  uint32_t words[4][kCounters], packed[kCounters];
  for (int64_t begin = 0; begin < counters; begin += kCounters) {
    for (int64_t j = 0; j < kCounters; ++j) {
      const uint64_t counter = first + static_cast<uint64_t>(begin + j);
      words[0][j] = static_cast<uint32_t>(counter);
      words[1][j] = static_cast<uint32_t>(counter >> 32);
      words[2][j] = words[3][j] = 0;
    }
    random::philox_rounds(seed, words);
    for (int64_t j = 0; j < kCounters; ++j) {  // extracts the bytes of a little-endian word
      const auto keeps = [&](int k) { return uint32_t{words[k][j] >> 8 >= threshold}; };
      packed[j] = keeps(0) | keeps(1) << 8 | keeps(2) << 16 | keeps(3) << 24;
    }
    const int64_t n = std::min(kCounters, counters - begin);
    std::memcpy(mask + 4 * begin, packed, static_cast<size_t>(4 * n));
  }
}

}  // namespace
}  // namespace mxlite::cpu
