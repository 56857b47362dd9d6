// Products of the step kernels: a few rows times a packed block of columns, with sums in registers.
// Included once per instruction set, which determines the tile size. Everything has internal
// linkage, so that the linker does not replace code for one instruction set by code for the other.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifndef MX_RNN_WIDE
#error "define MX_RNN_WIDE: 1 with 32 registers of 64 bytes, 0 with 16 of 32 bytes"
#endif

namespace mxlite::cpu {
namespace {

#define MX_INLINE inline __attribute__((always_inline))
#define MX_UNROLL _Pragma("GCC unroll 16")

// Blocks of weights and states consist of vectors of 64 bytes for all register sizes.
template <class T>
struct Lanes {
  static constexpr int64_t kCount = 64 / sizeof(T);
  using Vec [[gnu::vector_size(64)]] = T;
};
// A vector type of the register's size, because the compiler would keep wider vectors in memory.
template <class T>
struct Register {
  static constexpr int64_t kBytes = MX_RNN_WIDE ? 64 : 32, kCount = kBytes / sizeof(T);
  using Vec [[gnu::vector_size(kBytes)]] = T;
};

// Depth of a block of weights, which stays in the L1 cache while it is multiplied by all rows.
constexpr int64_t kTileDepth = 128;

// c (kRows x kVecs registers) += a (kRows x depth) * b (depth x kVecs registers).
template <class T, int kRows, int kVecs>
MX_INLINE void tile(const T* a, int64_t lda, const T* b, int64_t ldb, int64_t depth, T* c,
                    int64_t ldc) {
  using Vec = typename Register<T>::Vec;
  constexpr int64_t kLanes = Register<T>::kCount;
  Vec sum[kRows][kVecs];
  MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVecs; ++v)
      std::memcpy(&sum[r][v], c + r * ldc + v * kLanes, sizeof(Vec));
  for (int64_t k = 0; k < depth; ++k) {
    Vec w[kVecs];
    MX_UNROLL for (int v = 0; v < kVecs; ++v)
        std::memcpy(&w[v], b + k * ldb + v * kLanes, sizeof(Vec));
    MX_UNROLL for (int r = 0; r < kRows; ++r) {
      const T x = a[r * lda + k];
      MX_UNROLL for (int v = 0; v < kVecs; ++v) sum[r][v] += x * w[v];
    }
  }
  MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVecs; ++v)
      std::memcpy(c + r * ldc + v * kLanes, &sum[r][v], sizeof(Vec));
}

template <class T, int kVecs, int kMost>
MX_INLINE void tile_rows(int64_t count, const T* a, int64_t lda, const T* b, int64_t ldb,
                         int64_t depth, T* c, int64_t ldc) {
  if constexpr (kMost > 0) {
    if (count == kMost) return tile<T, kMost, kVecs>(a, lda, b, ldb, depth, c, ldc);
    tile_rows<T, kVecs, kMost - 1>(count, a, lda, b, ldb, depth, c, ldc);
  }
}

// Divides the rows into groups whose sums fit into registers; the groups have nearly equal sizes.
template <class T, int kVecs, int kMost>
__attribute__((noinline)) void panel(int64_t rows, const T* a, int64_t lda, const T* b, int64_t ldb,
                                     int64_t depth, T* c, int64_t ldc) {
  const int64_t groups = (rows + kMost - 1) / kMost;
  for (int64_t k = 0; k < depth; k += kTileDepth) {
    const int64_t deep = std::min(kTileDepth, depth - k);
    for (int64_t g = 0, r = 0; g < groups; ++g) {
      const int64_t end = rows * (g + 1) / groups;
      tile_rows<T, kVecs, kMost>(end - r, a + r * lda + k, lda, b + k * ldb, ldb, deep, c + r * ldc,
                                 ldc);
      r = end;
    }
  }
}

// c (rows x vecs vectors) += a (rows x depth) * b (depth x vecs vectors), vecs 3 or 4.
template <class T>
void product(int64_t vecs, int64_t rows, int64_t depth, const T* a, int64_t lda, const T* b, T* c,
             int64_t ldc) {
  const int64_t ldb = vecs * Lanes<T>::kCount;
#if MX_RNN_WIDE
  if (vecs == 4) return panel<T, 4, 6>(rows, a, lda, b, ldb, depth, c, ldc);
  panel<T, 3, 8>(rows, a, lda, b, ldb, depth, c, ldc);
#else
  for (int64_t v = 0; v < vecs * Lanes<T>::kCount; v += Lanes<T>::kCount)
    panel<T, 2, 6>(rows, a, lda, b + v, ldb, depth, c + v, ldc);
#endif
}

// Transposes kLanes vectors: swaps pairs of blocks of size kStep, for every power of two.
template <class T, int64_t kStep>
MX_INLINE void transpose(typename Lanes<T>::Vec* rows) {
  using Vec = typename Lanes<T>::Vec;
  using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  using Mask [[gnu::vector_size(64)]] = Index;
  constexpr int64_t kLanes = Lanes<T>::kCount;
  if constexpr (kStep < kLanes) {
    Mask low, high;
    for (int64_t j = 0; j < kLanes; ++j) {
      low[j] = static_cast<Index>(j & kStep ? kLanes + j - kStep : j);
      high[j] = static_cast<Index>(j & kStep ? kLanes + j : j + kStep);
    }
    MX_UNROLL for (int64_t i = 0; i < kLanes; ++i) {
      if (i & kStep) continue;
      const Vec first = rows[i], second = rows[i + kStep];
      rows[i] = __builtin_shuffle(first, second, low);
      rows[i + kStep] = __builtin_shuffle(first, second, high);
    }
    transpose<T, 2 * kStep>(rows);
  }
}

// Packs rows of weights as columns: to[k * width + column] = from[column's row][k]. rows[i] is null
// for columns beyond the last unit.
template <class T>
void pack_rows(const T* const* rows, int64_t width, int64_t depth, T* to) {
  using Vec = typename Lanes<T>::Vec;
  constexpr int64_t kLanes = Lanes<T>::kCount;
  for (int64_t k0 = 0; k0 < depth; k0 += kLanes) {
    const int64_t deep = std::min(kLanes, depth - k0);
    for (int64_t i0 = 0; i0 < width; i0 += kLanes) {
      Vec block[kLanes] = {};
      for (int64_t i = 0; i < kLanes; ++i) {
        if (!rows[i0 + i]) continue;
        if (deep == kLanes)
          std::memcpy(&block[i], rows[i0 + i] + k0, sizeof(Vec));
        else
          std::memcpy(&block[i], rows[i0 + i] + k0, static_cast<size_t>(deep) * sizeof(T));
      }
      transpose<T, 1>(block);
      for (int64_t k = 0; k < deep; ++k)
        std::memcpy(to + (k0 + k) * width + i0, &block[k], sizeof(Vec));
    }
  }
}

// Packs the columns [first, first + width) of `from` (depth x columns), with zeros beyond the last
// column.
template <class T>
void pack_columns(const T* from, int64_t columns, int64_t first, int64_t width, int64_t depth,
                  T* to) {
  const int64_t valid = std::clamp<int64_t>(columns - first, 0, width);
  for (int64_t k = 0; k < depth; ++k) {
    std::copy_n(from + k * columns + first, valid, to + k * width);
    std::fill(to + k * width + valid, to + (k + 1) * width, T(0));
  }
}

}  // namespace
}  // namespace mxlite::cpu
