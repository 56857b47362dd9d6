// Packs matrices of 16-bit elements for instructions that multiply pairs (VDPBF16PS, AMX). All
// functions require has_avx512().
#pragma once
#include <cstdint>

namespace mxlite::cpu {

// Layout of a right operand in blocks of 32 rows and `width` columns. In a block, element (k, n) is
// at [k / 2][n][k % 2]; elements outside the matrix are 0.
struct PairPanels {
  static constexpr int64_t kRows = 32;
  int64_t rows, columns;              // size of the matrix
  int64_t width;                      // a multiple of 16
  int64_t row_stride, column_stride;  // distance between blocks in elements
};

// Packs `from`, a contiguous matrix (rows, columns), or (columns, rows) if `transposed`.
void pack_pairs(const uint16_t* from, bool transposed, const PairPanels& panels, uint16_t* to);

// Sets to[c][r] = from[r][c]; both are contiguous.
void transpose_halves(const uint16_t* from, int64_t rows, int64_t columns, uint16_t* to);

}  // namespace mxlite::cpu
