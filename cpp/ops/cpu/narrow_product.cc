#include "cpp/ops/cpu/narrow_product.h"

#include <immintrin.h>

#include <algorithm>
#include <vector>

#include "cpp/core/parallel.h"
#include "cpp/core/threads.h"

// Must follow the headers that other files also include, because their inline functions must not be
// compiled for this target.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 warns about its own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace mxlite::cpu {
namespace {

constexpr int64_t kLanes = 16, kMostVectors = 4, kMostRows = 6;

struct Operands {
  int64_t k;
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
};

// Computes kRows rows and kVectors vectors of C, of which the last has the lanes of `last`.
template <int kRows, int kVectors>
void tile(const Operands& p, __mmask16 last) {
  __m512 sums[kRows][kVectors];
  // Without these unrolled loops, GCC keeps the sums in memory.
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  const float* b = p.b;
  for (int64_t l = 0; l < p.k; ++l, b += p.ldb) {
    __m512 values[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      values[v] = v + 1 < kVectors ? _mm512_loadu_ps(b + v * kLanes)
                                   : _mm512_maskz_loadu_ps(last, b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 factor = _mm512_set1_ps(p.a[r * p.lda + l]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = _mm512_fmadd_ps(factor, values[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      _mm512_mask_storeu_ps(p.c + r * p.ldc + v * kLanes,
                            v + 1 < kVectors ? __mmask16(0xffff) : last, sums[r][v]);
}

// Computes all rows of kVectors vectors of C.
template <int kVectors>
void columns(Operands p, int64_t rows, __mmask16 last) {
  const auto advance = [&](int64_t count) {
    p.a += count * p.lda;
    p.c += count * p.ldc;
    rows -= count;
  };
  for (; rows >= kMostRows; advance(kMostRows)) tile<kMostRows, kVectors>(p, last);
  for (; rows >= 4; advance(4)) tile<4, kVectors>(p, last);
  for (; rows > 0; advance(1)) tile<1, kVectors>(p, last);
}

void rows_of(Operands p, int64_t rows, int64_t n) {
  for (int64_t j = 0; j < n; j += kMostVectors * kLanes) {
    const int64_t width = std::min(n - j, kMostVectors * kLanes);
    const int64_t vectors = (width + kLanes - 1) / kLanes;
    const auto last = static_cast<__mmask16>((1u << (width - (vectors - 1) * kLanes)) - 1);
    Operands part = p;
    part.b += j;
    part.c += j;
    if (vectors == 1)
      columns<1>(part, rows, last);
    else if (vectors == 2)
      columns<2>(part, rows, last);
    else if (vectors == 3)
      columns<3>(part, rows, last);
    else
      columns<4>(part, rows, last);
  }
}

// Transposes n rows of k elements into `to`, whose rows of n elements are adjacent.
void transpose(const float* from, int64_t ld, int64_t n, int64_t k, float* to) {
  constexpr int64_t kBlock = 16;  // whole lines of `to` are written
  for (int64_t j0 = 0; j0 < n; j0 += kBlock)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = j0; j < std::min(n, j0 + kBlock); ++j) to[l * n + j] = from[j * ld + l];
}

}  // namespace

bool is_narrow_product(int64_t n, int64_t k) {
  constexpr int64_t kMostElements = 16384, kMostDepth = 512;
  return n * k <= kMostElements && k <= kMostDepth;
}

void narrow_product(bool trans_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
                    const float* b, int64_t ldb, float* c, int64_t ldc) {
  if (trans_b) {
    static thread_local std::vector<float> columns_of_b;
    columns_of_b.resize(std::max(columns_of_b.size(), static_cast<size_t>(n * k)));
    transpose(b, ldb, n, k, columns_of_b.data());
    b = columns_of_b.data();
    ldb = n;
  }
  const int64_t blocks = (m + kMostRows - 1) / kMostRows;
  constexpr double kNanoseconds = kProductNanoseconds / 4;  // time of a multiply-add in these loops
  const double work = static_cast<double>(m * n) * static_cast<double>(k) * kNanoseconds;
  run_parts(blocks, work, [&](int64_t first_block, int64_t last_block) {
    const int64_t first = first_block * kMostRows, last = std::min(last_block * kMostRows, m);
    rows_of({k, a + first * lda, lda, b, ldb, c + first * ldc, ldc}, last - first, n);
  });
}

}  // namespace mxlite::cpu
