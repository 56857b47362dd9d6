// Rearranges rows of bfloat16 for attention_bf16_tile.h, and stores results. Included after
// attention_tile.h and attention_bf16_tile.h.
#pragma once

namespace mxlite::cpu {
namespace {

using Floats = Register<float>::Vec;

constexpr __mmask32 kAllHalves = 0xffffffff;  // GCC warns about intrinsics without a mask

MX_INLINE __mmask32 first_halves(int64_t count) {
  return count >= 32 ? kAllHalves : (__mmask32{1} << std::max<int64_t>(count, 0)) - 1;
}

// Loads 32 elements. Elements from the `count`-th on are zero; for a null pointer, all are zero.
MX_INLINE __m512i load_halves(const bfloat16* from, int64_t count) {
  return from ? _mm512_maskz_loadu_epi16(first_halves(count), from) : _mm512_setzero_si512();
}

// Loads the pairs (even[i], odd[i]) of the first 16 elements.
MX_INLINE __m512i load_pairs(const bfloat16* even, const bfloat16* odd, int64_t count) {
  const auto mask = static_cast<__mmask16>(first_halves(count));
  const __m256i none = _mm256_setzero_si256();
  const __m256i low = even ? _mm256_maskz_loadu_epi16(mask, even) : none;
  const __m256i high = odd ? _mm256_maskz_loadu_epi16(mask, odd) : none;
  constexpr __mmask16 kAll = 0xffff;
  return _mm512_or_si512(
      _mm512_maskz_cvtepu16_epi32(kAll, low),
      _mm512_maskz_slli_epi32(kAll, _mm512_maskz_cvtepu16_epi32(kAll, high), 16));
}

MX_INLINE void transpose_words(Floats* rows) { transpose<float, 1>(rows); }
MX_INLINE Floats as_floats(__m512i v) { return reinterpret_cast<Floats>(v); }

// Rounds both vectors to bfloat16; `low` becomes the lower half of the result.
MX_INLINE __m512i rounded(Floats low, Floats high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}
MX_INLINE void store_rounded(bfloat16* to, Floats v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
}

// Returns the rows of an array. Copies row r to slot r % 16 unless it is contiguous bfloat16.
struct RowReader {
  const HeadRows& from;
  int64_t count, columns;
  bfloat16* loaded;
  int64_t stride;  // elements per slot

  // Returns null for rows from `count` on.
  MX_INLINE const bfloat16* row(int64_t r) const {
    if (r >= count) return nullptr;
    if (from.column == 1 && from.dtype == DType::kBFloat16)
      return static_cast<const bfloat16*>(from.at(r));
    bfloat16* const to = loaded + r % kTile * stride;
    with_floating(from.dtype, [&]<class U>(U) {
      const U* values = static_cast<const U*>(from.at(r));
      for (int64_t i = 0; i < columns; ++i)
        to[i] = static_cast<bfloat16>(static_cast<float>(values[i * from.column]));
    });
    return to;
  }
};

// Copies `rows` rows of `width` elements, starting at row `first`. Elements beyond the array are
// zero.
inline void copy_rows(const RowReader& reader, int64_t first, int64_t rows, int64_t width,
                      bfloat16* to) {
  for (int64_t r = 0; r < rows; ++r) {
    const bfloat16* const row = reader.row(first + r);
    for (int64_t i = 0; i < width; i += kDepth)
      _mm512_storeu_si512(to + r * width + i,
                          load_halves(row ? row + i : nullptr, reader.columns - i));
  }
}

// Packs rows as the columns of a right factor of `depth` rows.
inline void pack_as_columns(const RowReader& reader, int64_t depth, bfloat16* to) {
  for (int64_t first = 0; first < reader.count; first += kDepth)  // processes two tiles
    for (int64_t n = first; n < first + kDepth; n += kTile) {
      const bfloat16* rows[kTile];
      for (int64_t i = 0; i < kTile; ++i) rows[i] = reader.row(n + i);
      for (int64_t k = 0; k < depth; k += kDepth, to += kTileSize) {
        Floats block[kTile];
        MX_UNROLL for (int64_t i = 0; i < kTile; ++i) block[i] =
            as_floats(load_halves(rows[i] ? rows[i] + k : nullptr, reader.columns - k));
        transpose_words(block);
        std::memcpy(static_cast<void*>(to), block, sizeof block);
      }
    }
}

// Packs rows as the rows of a right factor of `width` columns.
inline void pack_as_rows(const RowReader& reader, int64_t width, bfloat16* to) {
  for (int64_t first = 0; first < reader.count; first += kDepth, to += kDepth * width)
    for (int64_t i = 0; i < kTile; ++i) {
      const bfloat16* const even = reader.row(first + 2 * i);
      const bfloat16* const odd = reader.row(first + 2 * i + 1);
      for (int64_t n = 0; n < width; n += kTile)
        _mm512_storeu_si512(
            to + n * kDepth + i * kDepth,
            load_pairs(even ? even + n : nullptr, odd ? odd + n : nullptr, reader.columns - n));
    }
}

// Writes the transpose of `from` to `to`. `rows` must be a multiple of kDepth, `columns` of kTile.
inline void transpose_rows(const bfloat16* from, int64_t rows, int64_t columns, bfloat16* to) {
  for (int64_t r = 0; r < rows; r += kDepth)
    for (int64_t n = 0; n < columns; n += kTile) {
      Floats block[kTile];
      MX_UNROLL for (int64_t i = 0; i < kTile; ++i) {
        const bfloat16* const even = from + (r + 2 * i) * columns + n;
        block[i] = as_floats(load_pairs(even, even + columns, kTile));
      }
      transpose_words(block);
      for (int64_t i = 0; i < kTile; ++i)
        std::memcpy(static_cast<void*>(to + (n + i) * rows + r), &block[i], sizeof block[i]);
    }
}

// Stores `count` (at most kTile) elements of row r, starting at column `first`.
MX_INLINE void store_halves(const HeadRows& to, int64_t r, int64_t first, int64_t count, Floats v) {
  bfloat16 values[kTile];
  store_rounded(values, v);
  bfloat16* const row = static_cast<bfloat16*>(const_cast<void*>(to.at(r, first)));
  if (to.column == 1 && count == kTile)
    std::memcpy(static_cast<void*>(row), values, sizeof values);
  else
    for (int64_t i = 0; i < count; ++i) row[i * to.column] = values[i];
}

// Stores `factor` times the transpose of `from`, whose rows are `stride` elements apart.
inline void store_transposed(const HeadRows& to, int64_t rows, int64_t columns, float factor,
                             const float* from, int64_t stride) {
  for (int64_t r = 0; r < rows; r += kTile)
    for (int64_t n = 0; n < columns; n += kTile) {
      Floats block[kTile];
      for (int64_t i = 0; i < kTile; ++i)
        std::memcpy(&block[i], from + (n + i) * stride + r, sizeof block[i]);
      transpose_words(block);
      for (int64_t i = 0; i < std::min(kTile, rows - r); ++i)
        store_halves(to, r + i, n, std::min(kTile, columns - n), block[i] * factor);
    }
}

}  // namespace
}  // namespace mxlite::cpu
