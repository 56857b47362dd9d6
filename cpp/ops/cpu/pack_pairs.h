// Brings matrices of 16-bit elements into the orders that instructions for products of pairs read
// (VDPBF16PS, AMX). All of it needs has_avx512().
#pragma once
#include <cstdint>

namespace mxlite::cpu {

// A right operand in blocks of 32 rows and `width` columns. In a block, element (k, n) lies at
// [k / 2][n][k % 2]; what is beyond the matrix is 0.
struct PairPanels {
  static constexpr int64_t kRows = 32;
  int64_t rows, columns;              // size of the matrix
  int64_t width;                      // a multiple of 16
  int64_t row_stride, column_stride;  // elements from a block to the next one
};

// `from` is row-major without gaps: (rows, columns), or (columns, rows) if it is transposed.
void pack_pairs(const uint16_t* from, bool transposed, const PairPanels& panels, uint16_t* to);

// to[c][r] = from[r][c], both without gaps.
void transpose_halves(const uint16_t* from, int64_t rows, int64_t columns, uint16_t* to);

}  // namespace mxlite::cpu
