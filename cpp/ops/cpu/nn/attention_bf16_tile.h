// Matrix products of bfloat16 with float32 sums, in AMX tiles. Included after rnn_tile.h.
#pragma once

namespace mxlite::cpu {
namespace {

constexpr int64_t kTile = AttentionSizes<bfloat16>::kTile;    // rows or columns of a tile
constexpr int64_t kDepth = AttentionSizes<bfloat16>::kDepth;  // products per sum of a tile
constexpr int64_t kTileSize = kTile * kDepth;                 // elements of a tile of a factor

// The left factor: rows of bfloat16, `stride` elements apart.
struct LeftFactor {
  const bfloat16* data;
  int64_t stride;
};

// The right factor: packed tiles of kDepth rows by kTile columns. A tile holds pairs of rows:
// element (k, column) is at (k / 2 * kTile + column) * 2 + k % 2. `column` and `step` are the
// distances, in elements, to the next tile along the columns and along the rows.
struct RightFactor {
  const bfloat16* data;
  int64_t column, step;
};

// Rows of float32, `stride` elements apart.
struct Product {
  float* data;
  int64_t stride;
  bool add;  // add to the values in memory instead of overwriting them
};

// Configures the tile registers of this thread as 16 rows of 64 bytes during its lifetime.
class TileRegisters {
 public:
  TileRegisters() {
    struct alignas(64) Palette {
      uint8_t id = 1, start_row = 0, reserved[14] = {};
      uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static const Palette palette;
    _tile_loadconfig(&palette);
  }
  ~TileRegisters() { _tile_release(); }
  TileRegisters& operator=(TileRegisters&&) = delete;  // neither copied nor moved
};

// Computes kRows by kColumns tiles of c from `steps` pairs of tiles each.
template <int kRows, int kColumns>
MX_INLINE void multiply_tiles(int64_t steps, const LeftFactor& a, const RightFactor& b,
                              const Product& c) {
  const int64_t a_bytes = a.stride * int64_t{sizeof(bfloat16)};
  const int64_t c_bytes = c.stride * int64_t{sizeof(float)};
  float *const c0 = c.data, *const c1 = c0 + kTile * c.stride;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (c.add) {
    _tile_loadd(0, c0, c_bytes);
    if constexpr (kColumns > 1) _tile_loadd(1, c0 + kTile, c_bytes);
    if constexpr (kRows > 1) _tile_loadd(2, c1, c_bytes);
    if constexpr (kRows > 1 && kColumns > 1) _tile_loadd(3, c1 + kTile, c_bytes);
  }
  for (int64_t s = 0; s < steps; ++s) {
    const bfloat16 *const left = a.data + s * kDepth, *const right = b.data + s * b.step;
    _tile_loadd(4, left, a_bytes);
    _tile_loadd(6, right, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kColumns > 1) {
      _tile_loadd(7, right + b.column, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kRows > 1) {
      _tile_loadd(5, left + kTile * a.stride, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kRows > 1 && kColumns > 1) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c0, c_bytes);
  if constexpr (kColumns > 1) _tile_stored(1, c0 + kTile, c_bytes);
  if constexpr (kRows > 1) _tile_stored(2, c1, c_bytes);
  if constexpr (kRows > 1 && kColumns > 1) _tile_stored(3, c1 + kTile, c_bytes);
}

template <int kColumns>
MX_INLINE void multiply_columns(int64_t row_tiles, int64_t steps, LeftFactor a,
                                const RightFactor& b, Product c) {
  for (int64_t i = 0; i + 1 < row_tiles; i += 2) {
    multiply_tiles<2, kColumns>(steps, a, b, c);
    a.data += 2 * kTile * a.stride;
    c.data += 2 * kTile * c.stride;
  }
  if (row_tiles % 2) multiply_tiles<1, kColumns>(steps, a, b, c);
}

// c = [c +] a b for row_tiles * kTile rows and column_tiles * kTile columns; each element sums
// steps * kDepth products.
__attribute__((noinline)) void multiply_halves(int64_t row_tiles, int64_t column_tiles,
                                               int64_t steps, const LeftFactor& a, RightFactor b,
                                               Product c) {
  // Keeps earlier stores before the tile instructions, because the compiler does not know that
  // these read memory.
  asm volatile("" ::: "memory");
  for (int64_t i = 0; i + 1 < column_tiles; i += 2) {
    multiply_columns<2>(row_tiles, steps, a, b, c);
    b.data += 2 * b.column;
    c.data += 2 * kTile;
  }
  if (column_tiles % 2) multiply_columns<1>(row_tiles, steps, a, b, c);
  asm volatile("" ::: "memory");
}

}  // namespace
}  // namespace mxlite::cpu
