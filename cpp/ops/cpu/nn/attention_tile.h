// Matrix products of attention blocks with sums in registers, and packing of their operands.
// Included once per instruction set, after rnn_tile.h, whose registers and transposition it uses.
#pragma once

namespace mxlite::cpu {
namespace {

// c (kRows x kVecs registers) = [c +] a * b. a is (kRows x depth) with rows `lda` elements apart,
// or is stored transposed with columns `lda` apart. b is (depth x kVecs registers).
template <class T, bool kTransposed, int kRows, int kVecs>
MX_INLINE void attention_tile(const T* a, int64_t lda, const T* b, int64_t ldb, int64_t depth,
                              bool add, T* c, int64_t ldc) {
  using Vec = typename Register<T>::Vec;
  constexpr int64_t kLanes = Register<T>::kCount;
  Vec sum[kRows][kVecs];
  if (add) {
    MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVecs; ++v)
        std::memcpy(&sum[r][v], c + r * ldc + v * kLanes, sizeof(Vec));
  } else {
    MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVecs; ++v) sum[r][v] =
        Vec{};
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vec w[kVecs];
    MX_UNROLL for (int v = 0; v < kVecs; ++v)
        std::memcpy(&w[v], b + k * ldb + v * kLanes, sizeof(Vec));
    MX_UNROLL for (int r = 0; r < kRows; ++r) {
      const T x = kTransposed ? a[k * lda + r] : a[r * lda + k];
      MX_UNROLL for (int v = 0; v < kVecs; ++v) sum[r][v] += x * w[v];
    }
  }
  MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVecs; ++v)
      std::memcpy(c + r * ldc + v * kLanes, &sum[r][v], sizeof(Vec));
}

template <class T, bool kTransposed, int kVecs, int kMost>
MX_INLINE void attention_rows(int64_t count, const T* a, int64_t lda, const T* b, int64_t ldb,
                              int64_t depth, bool add, T* c, int64_t ldc) {
  if constexpr (kMost > 0) {
    if (count == kMost)
      return attention_tile<T, kTransposed, kMost, kVecs>(a, lda, b, ldb, depth, add, c, ldc);
    attention_rows<T, kTransposed, kVecs, kMost - 1>(count, a, lda, b, ldb, depth, add, c, ldc);
  }
}

// Divides the rows into groups whose sums fit into registers; the groups have nearly equal sizes.
template <class T, bool kTransposed, int kVecs, int kMost>
__attribute__((noinline)) void attention_panel(int64_t rows, const T* a, int64_t lda, const T* b,
                                               int64_t ldb, int64_t depth, bool add, T* c,
                                               int64_t ldc) {
  const int64_t groups = (rows + kMost - 1) / kMost;
  for (int64_t k = 0; k < depth; k += kTileDepth) {
    const int64_t deep = std::min(kTileDepth, depth - k);
    for (int64_t g = 0, r = 0; g < groups; ++g) {
      const int64_t end = rows * (g + 1) / groups;
      const T* from = kTransposed ? a + k * lda + r : a + r * lda + k;
      attention_rows<T, kTransposed, kVecs, kMost>(end - r, from, lda, b + k * ldb, ldb, deep,
                                                   add || k > 0, c + r * ldc, ldc);
      r = end;
    }
  }
}

// A packed matrix of `depth` rows: adjacent strips of kStrip columns, each row-major without gaps.
// The last strip may be narrower.
template <class T>
struct Strips {
  static constexpr int64_t kVecs = 4, kStrip = kVecs * Lanes<T>::kCount;
  T* data = nullptr;
  int64_t depth = 0, columns = 0;  // columns is a multiple of the number of lanes

  int64_t count() const { return (columns + kStrip - 1) / kStrip; }
  int64_t width(int64_t strip) const { return std::min(kStrip, columns - strip * kStrip); }
  T* strip(int64_t i) const { return data + i * kStrip * depth; }
};

// c = [c +] a * b for rows [row, row + depth) and strips [begin, end) of b. The layout of `a` is
// that of attention_tile.
template <class T, bool kTransposed>
void multiply(int64_t rows, const T* a, int64_t lda, const Strips<T>& b, int64_t row, int64_t depth,
              int64_t begin, int64_t end, bool add, T* c, int64_t ldc) {
  for (int64_t s = begin; s < end; ++s, c += Strips<T>::kStrip) {
    const int64_t width = b.width(s), vecs = width / Lanes<T>::kCount;
    const T* from = b.strip(s) + row * width;
#if MX_RNN_WIDE
    if (vecs == 4)
      attention_panel<T, kTransposed, 4, 6>(rows, a, lda, from, width, depth, add, c, ldc);
    if (vecs == 3)
      attention_panel<T, kTransposed, 3, 8>(rows, a, lda, from, width, depth, add, c, ldc);
    if (vecs == 2)
      attention_panel<T, kTransposed, 2, 8>(rows, a, lda, from, width, depth, add, c, ldc);
    if (vecs == 1)
      attention_panel<T, kTransposed, 1, 8>(rows, a, lda, from, width, depth, add, c, ldc);
#else
    for (int64_t v = 0; v < vecs; ++v)
      attention_panel<T, kTransposed, 2, 6>(rows, a, lda, from + v * Lanes<T>::kCount, width, depth,
                                            add, c + v * Lanes<T>::kCount, ldc);
#endif
  }
}

// Calls fn(U{}) with the dtype's C++ type.
MX_INLINE void with_floating(DType dtype, auto&& fn) {
  switch (dtype) {
    case DType::kFloat16:
      return fn(float16{});
    case DType::kBFloat16:
      return fn(bfloat16{});
    case DType::kFloat64:
      return fn(double{});
    default:
      return fn(float{});
  }
}

// The rows of one head of an array.
struct HeadRows {
  const char* data;
  DType dtype;
  int64_t row, column, bytes;  // strides in elements, and element size

  HeadRows(const AttentionArray& a, int64_t b, int64_t h)
      : dtype(a.dtype),
        row(a.row),
        column(a.column),
        bytes(static_cast<int64_t>(dtype_size(a.dtype))) {
    data = static_cast<const char*>(a.data) + (b * a.batch + h * a.head) * bytes;
  }
  const void* at(int64_t r, int64_t c = 0) const { return data + (r * row + c * column) * bytes; }
};

template <class T>
void load_row(const HeadRows& from, int64_t r, int64_t first, int64_t count, T factor, T* to) {
  with_floating(from.dtype, [&]<class U>(U) {
    const U* values = static_cast<const U*>(from.at(r, first));
    if (from.column == 1)
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(values[i]) * factor;
    else
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(values[i * from.column]) * factor;
  });
}

template <class T>
void store_row(const HeadRows& to, int64_t r, int64_t count, T factor, const T* from) {
  with_floating(to.dtype, [&]<class U>(U) {
    U* values = static_cast<U*>(const_cast<void*>(to.at(r)));
    for (int64_t i = 0; i < count; ++i) values[i * to.column] = static_cast<U>(from[i] * factor);
  });
}

// Packs rows [0, count) as the columns of `to` (depth x padded count). `loaded` has room for kStrip
// rows.
template <class T>
void pack_transposed(const HeadRows& from, int64_t count, const Strips<T>& to, T* loaded) {
  const bool direct = from.dtype == DTypeOf<T>::value && from.column == 1;
  for (int64_t s = 0; s < to.count(); ++s) {
    const T* rows[Strips<T>::kStrip] = {};
    for (int64_t i = 0; i < to.width(s); ++i) {
      const int64_t r = s * Strips<T>::kStrip + i;
      if (r >= count) break;
      rows[i] = direct ? static_cast<const T*>(from.at(r)) : loaded + i * to.depth;
      if (!direct) load_row<T>(from, r, 0, to.depth, 1, loaded + i * to.depth);
    }
    pack_rows(rows, to.width(s), to.depth, to.strip(s));
  }
}

// Packs rows [0, count) as rows and pads columns with zeros.
template <class T>
void pack_plain(const HeadRows& from, int64_t count, int64_t columns, T factor,
                const Strips<T>& to) {
  for (int64_t s = 0; s < to.count(); ++s) {
    const int64_t width = to.width(s), first = s * Strips<T>::kStrip;
    const int64_t valid = std::min(width, columns - first);
    for (int64_t r = 0; r < count; ++r) {
      T* const row = to.strip(s) + r * width;
      load_row<T>(from, r, first, valid, factor, row);
      std::fill(row + valid, row + width, T(0));
    }
  }
}

}  // namespace
}  // namespace mxlite::cpu
