#include "cpp/ops/cpu/sort_words.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "cpp/core/parallel.h"

// Must follow the headers that other files also include, because their inline functions must not be
// compiled for this target.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 warns about its own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace mxlite::cpu {
namespace {

using Vec = __m512i;
constexpr int64_t kLanes = 16;
constexpr int kMostVectors = 16;
constexpr int64_t kNetwork = kMostVectors * kLanes;  // number of words that one network sorts

[[gnu::always_inline]] inline void order(Vec& low, Vec& high) {
  const Vec a = low, b = high;
  low = _mm512_min_epu32(a, b);
  high = _mm512_max_epu32(a, b);
}

// Sorts the lanes of 16 vectors with Green's network of 60 comparisons; lane i of all vectors is
// one sequence.
[[gnu::always_inline]] inline void sort_lanes(Vec* v) {
  constexpr int8_t kPairs[60][2] = {
      {0, 1},  {2, 3},   {4, 5},   {6, 7},   {8, 9},  {10, 11}, {12, 13}, {14, 15}, {0, 2},
      {4, 6},  {8, 10},  {12, 14}, {1, 3},   {5, 7},  {9, 11},  {13, 15}, {0, 4},   {8, 12},
      {1, 5},  {9, 13},  {2, 6},   {10, 14}, {3, 7},  {11, 15}, {0, 8},   {1, 9},   {2, 10},
      {3, 11}, {4, 12},  {5, 13},  {6, 14},  {7, 15}, {5, 10},  {6, 9},   {3, 12},  {13, 14},
      {4, 8},  {7, 11},  {1, 2},   {1, 4},   {7, 13}, {2, 8},   {11, 14}, {5, 6},   {9, 10},
      {2, 4},  {11, 13}, {3, 8},   {7, 12},  {6, 8},  {10, 12}, {3, 5},   {7, 9},   {3, 4},
      {5, 6},  {7, 8},   {9, 10},  {11, 12}, {6, 7},  {8, 9}};
#pragma GCC unroll 60
  for (const auto& pair : kPairs) order(v[pair[0]], v[pair[1]]);
}

// Transposes 16 vectors of 16 words.
[[gnu::always_inline]] inline void transpose(Vec* v) {
  Vec t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    v[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    v[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    v[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    v[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
    v[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
  }
}

[[gnu::always_inline]] inline Vec reversed(Vec v) {
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), v);
}

// Sorts a bitonic sequence of 16 words.
[[gnu::always_inline]] inline Vec merged_lanes(Vec v) {
  const auto step = [&](Vec other, __mmask16 high) {
    v = _mm512_mask_max_epu32(_mm512_min_epu32(v, other), high, v, other);
  };
  step(_mm512_shuffle_i64x2(v, v, 0x4e), 0xff00);
  step(_mm512_shuffle_i64x2(v, v, 0xb1), 0xf0f0);
  step(_mm512_shuffle_epi32(v, _MM_PERM_BADC), 0xcccc);
  step(_mm512_shuffle_epi32(v, _MM_PERM_CDAB), 0xaaaa);
  return v;
}

// Sorts a bitonic sequence of kCount vectors.
template <int kCount>
[[gnu::always_inline]] inline void merge_bitonic(Vec* v) {
  if constexpr (kCount > 1) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) order(v[i], v[i + kCount / 2]);
    merge_bitonic<kCount / 2>(v);
    merge_bitonic<kCount / 2>(v + kCount / 2);
  } else {
    v[0] = merged_lanes(v[0]);
  }
}

// Merges two sorted sequences of kCount / 2 vectors each.
template <int kCount>
[[gnu::always_inline]] inline void merge_sorted(Vec* v) {
  // The smaller halves are compared with the reversed second sequence, which gives two bitonic
  // sequences.
#pragma GCC unroll 8
  for (int i = 0; i < kCount / 2; ++i) {
    const Vec a = v[i], b = reversed(v[kCount - 1 - i]);
    v[i] = _mm512_min_epu32(a, b);
    v[kCount - 1 - i] = reversed(_mm512_max_epu32(a, b));
  }
  merge_bitonic<kCount / 2>(v);
  merge_bitonic<kCount / 2>(v + kCount / 2);
}

// Merges neighboring sorted sequences of kSize vectors until kCount vectors are sorted.
template <int kSize, int kCount>
[[gnu::always_inline]] inline void merge_all(Vec* v) {
  if constexpr (kSize < kCount) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; i += 2 * kSize) merge_sorted<2 * kSize>(v + i);
    merge_all<2 * kSize, kCount>(v);
  }
}

// Sorts at most kCount vectors of words. The sequences of lanes are transposed into sorted vectors,
// and then merged.
template <int kCount>
[[gnu::noinline]] void sort_few_words(const uint32_t* from, uint32_t* to, int64_t count) {
  Vec v[kMostVectors];
  const Vec largest = _mm512_set1_epi32(-1);
  const auto mask_of = [&](int i) {
    const int64_t words = std::clamp<int64_t>(count - i * kLanes, 0, kLanes);
    return static_cast<__mmask16>((1u << words) - 1);
  };
#pragma GCC unroll 16
  for (int i = 0; i < kMostVectors; ++i)
    v[i] = i < kCount ? _mm512_mask_loadu_epi32(largest, mask_of(i), from + i * kLanes) : largest;
  sort_lanes(v);
  transpose(v);
  merge_all<1, kMostVectors>(v);
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) _mm512_mask_storeu_epi32(to + i * kLanes, mask_of(i), v[i]);
}

// Copies the words for which `first` holds to the front of `to` and the others to its end, and
// returns the number of the former. A whole vector is written where more words follow.
template <class First>
int64_t partition(const uint32_t* from, uint32_t* to, int64_t count, const First& first) {
  int64_t low = 0, high = count, i = 0;
  const auto move = [&](Vec v, __mmask16 lanes) {
    const auto front = static_cast<__mmask16>(first(v) & lanes);
    const auto back = static_cast<__mmask16>(lanes & ~front);
    const int taken = std::popcount(static_cast<unsigned>(front));
    const int left = std::popcount(static_cast<unsigned>(back));
    const auto filled = [](int words) { return static_cast<__mmask16>((1u << words) - 1); };
    high -= left;
    _mm512_mask_storeu_epi32(to + high, filled(left), _mm512_maskz_compress_epi32(back, v));
    if (high - low >= kLanes)
      _mm512_storeu_si512(to + low, _mm512_maskz_compress_epi32(front, v));
    else
      _mm512_mask_storeu_epi32(to + low, filled(taken), _mm512_maskz_compress_epi32(front, v));
    low += taken;
  };
  for (; i + kLanes <= count; i += kLanes) move(_mm512_loadu_si512(from + i), 0xffff);
  if (i < count) {
    const auto lanes = static_cast<__mmask16>((1u << (count - i)) - 1);
    move(_mm512_maskz_loadu_epi32(lanes, from + i), lanes);
  }
  return low;
}

// Returns an estimate of the median: the median of kVectors vectors of words at equal distances.
template <int kVectors>
uint32_t choose_pivot(const uint32_t* words, int64_t count) {
  constexpr int64_t kSamples = kVectors * kLanes;
  uint32_t samples[kSamples];
  for (int64_t i = 0; i < kSamples; ++i) samples[i] = words[(2 * i + 1) * count / (2 * kSamples)];
  sort_few_words<kVectors>(samples, samples, kSamples);
  return samples[kSamples / 2];
}

// Words that are sorted without other words. They are in `from`, whose memory is overwritten, and
// the sorted words are written to `result`. `other` has the same size, and `result` is `from` or
// `other`.
struct Part {
  uint32_t *from, *other, *result;
  int64_t count;

  Part first(int64_t size) const { return {from, other, result, size}; }
  Part behind(int64_t size) const {
    return {from + size, other + size, result + size, count - size};
  }
};

// Moves the words that are smaller than the pivot before the others, and returns their number.
int64_t divide(Part& part, uint32_t pivot) {
  const Vec limit = _mm512_set1_epi32(static_cast<int>(pivot));
  const auto smaller = [&](Vec v) { return _mm512_cmplt_epu32_mask(v, limit); };
  const int64_t low = partition(part.from, part.other, part.count, smaller);
  std::swap(part.from, part.other);
  return low;
}

// `depth` limits the recursion for words that make all estimates bad.
void sort_part(Part part, int depth) {
  while (part.count > kNetwork) {
    if (depth-- == 0) {
      std::sort(part.from, part.from + part.count);
      if (part.result != part.from) std::copy_n(part.from, part.count, part.result);
      return;
    }
    const uint32_t pivot = choose_pivot<4>(part.from, part.count);
    const int64_t low = divide(part, pivot), count = part.count;
    sort_part(part.first(low), depth);
    part = part.behind(low);
    if (low < count / 8) {  // many words may equal the pivot, and these are in their places
      const Vec limit = _mm512_set1_epi32(static_cast<int>(pivot));
      const auto equal = [&](Vec v) { return _mm512_cmpeq_epi32_mask(v, limit); };
      const int64_t same = partition(part.from, part.other, part.count, equal);
      std::swap(part.from, part.other);
      std::fill_n(part.result, same, pivot);
      part = part.behind(same);
    }
  }
  if (part.count <= 4 * kLanes)
    sort_few_words<4>(part.from, part.result, part.count);
  else if (part.count <= 8 * kLanes)
    sort_few_words<8>(part.from, part.result, part.count);
  else
    sort_few_words<16>(part.from, part.result, part.count);
}

}  // namespace

void sort_words(uint32_t* words, uint32_t* room, int64_t count, int threads) {
  const int depth = 2 * std::bit_width(static_cast<uint64_t>(count));
  std::vector<Part> parts{{words, room, words, count}};
  // There are two parts for each thread, because their sizes differ.
  while (threads > 1 && static_cast<int>(parts.size()) < 2 * threads) {
    std::vector<Part> halves(2 * parts.size());
    run_shares(static_cast<int>(parts.size()), [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      Part part = parts[at];
      const int64_t low = part.count > kNetwork
                              ? divide(part, choose_pivot<kMostVectors>(part.from, part.count))
                              : 0;
      halves[2 * at] = part.first(low);
      halves[2 * at + 1] = part.behind(low);
    });
    parts = std::move(halves);
  }
  run_shares(static_cast<int>(parts.size()),
             [&](int64_t i) { sort_part(parts[static_cast<size_t>(i)], depth); });
}

}  // namespace mxlite::cpu
