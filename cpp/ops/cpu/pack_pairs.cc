#include "cpp/ops/cpu/pack_pairs.h"

#include <algorithm>
#include <cstring>

#include "cpp/ops/cpu/nn/parallel.h"

// This pragma must follow the headers that other files also include, because inline functions of
// these headers must not be compiled for this target.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")
#define MX_RNN_WIDE 1
#include "cpp/ops/cpu/nn/rnn_tile.h"

namespace mxlite::cpu {
namespace {

constexpr int64_t kBlock = PairPanels::kRows, kPairs = kBlock / 2, kWords = 16;
using Words [[gnu::vector_size(64)]] = uint32_t;
using Halves [[gnu::vector_size(32)]] = uint16_t;
using Row = Lanes<float>::Vec;  // elements are moved, not computed with

// Loads `count` (at most 16) elements, each into the lower half of a word, then zeros.
MX_INLINE Words widen(const uint16_t* from, int64_t count) {
  Halves half{};
  if (count >= kWords)
    std::memcpy(&half, from, sizeof half);
  else if (count > 0)
    std::memcpy(&half, from, static_cast<size_t>(count) * sizeof(uint16_t));
  return __builtin_convertvector(half, Words);
}

// Combines each element of row `even` with the element below it in one word. The row below may be
// missing (null).
MX_INLINE Row pair(const uint16_t* even, const uint16_t* odd, int64_t count) {
  Words words = widen(even, count);
  if (odd) words |= widen(odd, count) << 16;
  return reinterpret_cast<Row>(words);
}

// Loads the 16 pairs of rows of a block, 16 columns of each. Rows beyond `rows` are 0.
MX_INLINE void pair_rows(const uint16_t* from, int64_t stride, int64_t rows, int64_t columns,
                         Row* words) {
  for (int64_t i = 0; i < kPairs; ++i) {
    const uint16_t* const even = from + 2 * i * stride;
    words[i] =
        2 * i < rows ? pair(even, 2 * i + 1 < rows ? even + stride : nullptr, columns) : Row{};
  }
}

// Loads 16 rows of up to 32 elements as words of two adjacent elements. Missing elements are 0.
MX_INLINE void load_rows(const uint16_t* from, int64_t stride, int64_t rows, int64_t columns,
                         Row* words) {
  for (int64_t i = 0; i < kWords; ++i) {
    words[i] = Row{};
    if (i >= rows) continue;
    if (columns >= kBlock)
      std::memcpy(&words[i], from + i * stride, sizeof(Row));
    else
      std::memcpy(&words[i], from + i * stride, static_cast<size_t>(columns) * sizeof(uint16_t));
  }
}

MX_INLINE void store_words(uint16_t* to, const Row& words) {
  std::memcpy(to, &words, sizeof words);
}

// Reads whole rows, so each thread takes blocks of rows.
void pack_rows_of_pairs(const uint16_t* from, const PairPanels& p, uint16_t* to) {
  const int64_t blocks = (p.rows + kBlock - 1) / kBlock;
  parallel_for(blocks, kBlock * p.columns, [&](int64_t block) {
    const int64_t rows = p.rows - block * kBlock;
    for (int64_t first = 0; first < p.columns; first += p.width) {
      uint16_t* const panel = to + block * p.row_stride + first / p.width * p.column_stride;
      for (int64_t i = 0; i < p.width; i += kWords) {
        Row words[kPairs];
        pair_rows(from + block * kBlock * p.columns + first + i, p.columns, rows,
                  p.columns - first - i, words);
        for (int64_t k = 0; k < kPairs; ++k) store_words(panel + 2 * (k * p.width + i), words[k]);
      }
    }
  });
}

// Reads 16 rows of the given matrix at a time, which are 16 columns of the operand.
void pack_columns_of_pairs(const uint16_t* from, const PairPanels& p, uint16_t* to) {
  const int64_t groups = p.width / kWords, blocks = (p.columns + p.width - 1) / p.width;
  parallel_for(blocks * groups, kWords * p.rows, [&](int64_t task) {
    const int64_t column = task / groups * p.width + task % groups * kWords;
    uint16_t* const panel = to + task / groups * p.column_stride + 2 * (task % groups) * kWords;
    for (int64_t k = 0; k < p.rows; k += kBlock) {
      Row words[kWords];
      load_rows(from + column * p.rows + k, p.rows, p.columns - column, p.rows - k, words);
      transpose<float, 1>(words);
      for (int64_t i = 0; i < kPairs; ++i)
        store_words(panel + k / kBlock * p.row_stride + 2 * i * p.width, words[i]);
    }
  });
}

}  // namespace

void pack_pairs(const uint16_t* from, bool transposed, const PairPanels& panels, uint16_t* to) {
  transposed ? pack_columns_of_pairs(from, panels, to) : pack_rows_of_pairs(from, panels, to);
}

void transpose_halves(const uint16_t* from, int64_t rows, int64_t columns, uint16_t* to) {
  parallel_for((rows + kBlock - 1) / kBlock, kBlock * columns, [&](int64_t block) {
    const int64_t first = block * kBlock, deep = std::min(kBlock, rows - first);
    for (int64_t column = 0; column < columns; column += kWords) {
      Row words[kWords];
      pair_rows(from + first * columns + column, columns, deep, columns - column, words);
      transpose<float, 1>(words);
      const int64_t width = std::min(kWords, columns - column);
      for (int64_t i = 0; i < width; ++i) {
        uint16_t* const row = to + (column + i) * rows + first;
        if (deep == kBlock)
          store_words(row, words[i]);
        else
          std::memcpy(row, &words[i], static_cast<size_t>(deep) * sizeof(uint16_t));
      }
    }
  });
}

}  // namespace mxlite::cpu
