// Products of many pairs of vectors: dot products or outer products, each of which is too small for
// a library call.
#pragma once
#include <cstdint>
#include <type_traits>

#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::cpu {

// Integers wrap around on overflow; 16-bit floats are computed in float.
template <class T>
using Widest = std::conditional_t<std::is_floating_point_v<T>, T,
                                  std::conditional_t<std::is_integral_v<T>, uint64_t, float>>;

// y[i] = dot(a[i], b[i]) for rows of n adjacent elements. Steps count elements from row to row; a
// step of 0 repeats one row.
template <class T>
void row_products(int64_t rows, int64_t n, const T* a, int64_t step_a, const T* b, int64_t step_b,
                  T* y, int64_t step_y) {
  parallel_for(rows, n, [&](int64_t i) {
    const T *const left = a + i * step_a, *const right = b + i * step_b;
    Widest<T> sum{};
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; ++j)
      sum += static_cast<Widest<T>>(left[j]) * static_cast<Widest<T>>(right[j]);
    y[i * step_y] = static_cast<T>(sum);
  });
}

// Row r of y[i] is a[i][r] * b[i], for b[i] of n adjacent elements and `m` elements of a[i] that
// are `next_a` apart.
template <class T>
void outer_products(int64_t batch, int64_t m, int64_t n, const T* a, int64_t step_a, int64_t next_a,
                    const T* b, int64_t step_b, T* y, int64_t step_y, int64_t row_y) {
  parallel_for(batch, m * n, [&](int64_t i) {
    const T* const values = b + i * step_b;
    for (int64_t r = 0; r < m; ++r) {
      const auto factor = static_cast<Widest<T>>(a[i * step_a + r * next_a]);
      T* const to = y + i * step_y + r * row_y;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j)
        to[j] = static_cast<T>(factor * static_cast<Widest<T>>(values[j]));
    }
  });
}

}  // namespace mxlite::cpu
