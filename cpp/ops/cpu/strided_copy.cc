#include "cpp/ops/cpu/strided_copy.h"

#include <immintrin.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cpp/core/parallel.h"

namespace mxlite::cpu {
namespace {

// Returns the work of copying bytes, in elements as share_range() counts them.
constexpr int64_t copy_work(int64_t bytes) { return std::max<int64_t>(1, bytes / 2); }
constexpr int64_t kCopyGrain = 4096;  // bytes

// Drops axes of length 1, sorts axes by the destination's strides, and merges adjacent axes that
// are contiguous on both sides.
void simplify(CopyAxes& axes) {
  for (int i = 1; i < axes.size(); ++i)
    for (int j = i; j > 0 && std::abs(axes[j].dst) > std::abs(axes[j - 1].dst); --j)
      std::swap(axes[j], axes[j - 1]);
  int kept = 0;
  for (const CopyAxis axis : axes) {
    if (axis.size == 1) continue;
    if (kept) {
      CopyAxis& last = axes[kept - 1];
      if (last.dst == axis.dst * axis.size && last.src == axis.src * axis.size) {
        last = {last.size * axis.size, axis.dst, axis.src};
        continue;
      }
    }
    axes[kept++] = axis;
  }
  axes.resize(kept);
  if (kept == 0) axes.push_back({1, 1, 1});
}

// Calls fn(dst offset, src offset) for every index of `axes`, divided among threads.
void for_each_index(std::span<const CopyAxis> axes, int64_t total_bytes, auto fn) {
  if (axes.empty()) return fn(int64_t{0}, int64_t{0});
  const CopyAxis inner = axes.back();
  const std::span<const CopyAxis> outer = axes.first(axes.size() - 1);
  int64_t count = 1;
  for (const CopyAxis& a : axes) count *= a.size;
  const auto run = [&](int64_t first, int64_t last) {
    int64_t index[2 * Shape::kMaxNdim + 2];
    int64_t dst = 0, src = 0, rest = first / inner.size, begin = first % inner.size;
    for (size_t i = outer.size(); i-- > 0;) {
      index[i] = rest % outer[i].size;
      rest /= outer[i].size;
      dst += index[i] * outer[i].dst;
      src += index[i] * outer[i].src;
    }
    for (int64_t n = first; n < last; begin = 0) {
      const int64_t end = std::min(inner.size, begin + last - n);
      for (int64_t k = begin; k < end; ++k) fn(dst + k * inner.dst, src + k * inner.src);
      n += end - begin;
      for (size_t i = outer.size(); i-- > 0;) {
        dst += outer[i].dst;
        src += outer[i].src;
        if (++index[i] < outer[i].size) break;
        index[i] = 0;
        dst -= outer[i].dst * outer[i].size;
        src -= outer[i].src * outer[i].size;
      }
    }
  };
  share_range(count, 1, copy_work(total_bytes / std::max<int64_t>(1, count)),
              [&](int64_t first, int64_t last, int) { run(first, last); });
}

// dst[r][c] = src[c][r] for an 8 x 8 tile. Steps are in elements.
void transpose_8x8(const uint32_t* src, int64_t src_step, uint32_t* dst, int64_t dst_step) {
  __m256 r[8], t[8];
  const auto* const from = reinterpret_cast<const float*>(src);
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * src_step);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  auto* const to = reinterpret_cast<float*>(dst);
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * dst_step, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * dst_step, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

void transpose_8x8(const uint16_t* src, int64_t src_step, uint16_t* dst, int64_t dst_step) {
  __m128i r[8], t[8];
  for (int i = 0; i < 8; ++i)
    r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i * src_step));
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm_unpacklo_epi32(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm_unpackhi_epi32(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm_unpacklo_epi32(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm_unpackhi_epi32(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    auto* const low = reinterpret_cast<__m128i*>(dst + 2 * i * dst_step);
    auto* const high = reinterpret_cast<__m128i*>(dst + (2 * i + 1) * dst_step);
    _mm_storeu_si128(low, _mm_unpacklo_epi64(r[i], r[i + 4]));
    _mm_storeu_si128(high, _mm_unpackhi_epi64(r[i], r[i + 4]));
  }
}

template <class T>
void transpose_8x8(const T* src, int64_t src_step, T* dst, int64_t dst_step) {
  for (int64_t r = 0; r < 8; ++r)
    for (int64_t c = 0; c < 8; ++c) dst[r * dst_step + c] = src[c * src_step + r];
}

// Transposes: dst (rows x cols) has contiguous rows, src contiguous columns. Tiles of at most 64 x
// 64 elements fit into the L1 cache on both sides.
template <class T>
void transpose_block(const T* src, int64_t src_step, T* dst, int64_t dst_step, int64_t rows,
                     int64_t cols) {
  constexpr int64_t kTile = 64;
  for (int64_t c0 = 0; c0 < cols; c0 += kTile) {
    const int64_t c1 = std::min(c0 + kTile, cols);
    const int64_t full_rows = rows & ~int64_t{7}, full_cols = c0 + ((c1 - c0) & ~int64_t{7});
    for (int64_t r = 0; r < full_rows; r += 8) {
      for (int64_t c = c0; c < full_cols; c += 8)
        transpose_8x8(src + c * src_step + r, src_step, dst + r * dst_step + c, dst_step);
      for (int64_t c = full_cols; c < c1; ++c)
        for (int64_t i = r; i < r + 8; ++i) dst[i * dst_step + c] = src[c * src_step + i];
    }
    for (int64_t r = full_rows; r < rows; ++r)
      for (int64_t c = c0; c < c1; ++c) dst[r * dst_step + c] = src[c * src_step + r];
  }
}

template <class T>
void copy_transposed(CopyAxes axes, int row_axis, T* dst, const T* src, int64_t bytes) {
  const CopyAxis row = axes[row_axis], col = axes[axes.size() - 1];
  axes.resize(axes.size() - 1);
  axes.erase(row_axis);
  // Divides the rows as well, so that every thread has work if there are few outer indices.
  constexpr int64_t kRowsPerStep = 64;
  const int64_t steps = row.size / kRowsPerStep;
  if (steps > 0) {
    axes.push_back({steps, kRowsPerStep * row.dst, kRowsPerStep});
    for_each_index({axes.begin(), axes.end()}, bytes, [&](int64_t d, int64_t s) {
      transpose_block(src + s, col.src, dst + d, row.dst, kRowsPerStep, col.size);
    });
    axes.resize(axes.size() - 1);
  }
  const int64_t done = steps * kRowsPerStep;
  if (done == row.size) return;
  for_each_index({axes.begin(), axes.end()}, bytes, [&](int64_t d, int64_t s) {
    transpose_block(src + s + done, col.src, dst + d + done * row.dst, row.dst, row.size - done,
                    col.size);
  });
}

// Copies a row of at least 32 bytes. Short rows are copied by vectors, because a call of memcpy for
// each of them takes longer than the copy.
void copy_row(void* dst, const void* src, int64_t bytes) {
  constexpr int64_t kVector = 32, kMost = 1024;
  if (bytes > kMost) {
    std::memcpy(dst, src, static_cast<size_t>(bytes));
    return;
  }
  const auto copy_vector = [&](int64_t offset) {
    const auto* const from =
        reinterpret_cast<const __m256i*>(static_cast<const char*>(src) + offset);
    auto* const to = reinterpret_cast<__m256i*>(static_cast<char*>(dst) + offset);
    _mm256_storeu_si256(to, _mm256_loadu_si256(from));
  };
  int64_t done = 0;
  for (; done + kVector <= bytes; done += kVector) copy_vector(done);
  if (done < bytes) copy_vector(bytes - kVector);  // overlaps the vector before it
}

template <class T>
void copy_axes(const CopyAxes& axes, T* dst, const T* src) {
  int64_t bytes = sizeof(T);
  for (const CopyAxis& a : axes) bytes *= a.size;
  const CopyAxis inner = axes[axes.size() - 1];
  const std::span<const CopyAxis> outer(axes.begin(), axes.end() - 1);
  if (inner.dst == 1 && inner.src == 1) {
    if (outer.empty()) return contiguous_copy(dst, src, static_cast<size_t>(bytes));
    const int64_t row_bytes = inner.size * static_cast<int64_t>(sizeof(T));
    if (row_bytes >= 64)
      return for_each_index(outer, bytes,
                            [&](int64_t d, int64_t s) { copy_row(dst + d, src + s, row_bytes); });
  } else if (inner.dst == 1 && inner.src != 0) {
    for (int i = 0; i + 1 < axes.size(); ++i)
      if (axes[i].src == 1) return copy_transposed(axes, i, dst, src, bytes);
  }
  if (inner.src == 0 && inner.dst == 1)
    return for_each_index(outer, bytes,
                          [&](int64_t d, int64_t s) { std::fill_n(dst + d, inner.size, src[s]); });
  if (inner.src == -1 && inner.dst == 1)
    return for_each_index(outer, bytes, [&](int64_t d, int64_t s) {
      T* const to = dst + d;
      const T* const from = src + s;
      const int64_t n = inner.size;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) to[i] = from[-i];
    });
  for_each_index(outer, bytes, [&](int64_t d, int64_t s) {
    T* to = dst + d;
    const T* from = src + s;
    for (int64_t i = 0; i < inner.size; ++i, to += inner.dst, from += inner.src) *to = *from;
  });
}

}  // namespace

void strided_copy(size_t element_bytes, CopyAxes axes, void* dst, const void* src) {
  for (const CopyAxis& a : axes)
    if (a.size == 0) return;
  simplify(axes);
  dispatch_size(element_bytes, [&]<class T>(T) {
    copy_axes(axes, static_cast<T*>(dst), static_cast<const T*>(src));
  });
}

void strided_copy(size_t element_bytes, const Shape& shape, void* dst, const Strides& dst_strides,
                  const void* src, const Strides& src_strides) {
  CopyAxes axes;
  for (int i = 0; i < shape.ndim(); ++i) axes.push_back({shape[i], dst_strides[i], src_strides[i]});
  strided_copy(element_bytes, axes, dst, src);
}

void contiguous_copy(void* dst, const void* src, size_t bytes) {
  if (dst == src || bytes == 0) return;
  share_range(static_cast<int64_t>(bytes), kCopyGrain, 1, [&](int64_t first, int64_t last, int) {
    std::memcpy(static_cast<char*>(dst) + first, static_cast<const char*>(src) + first,
                static_cast<size_t>(last - first));
  });
}

void zero_fill(void* dst, size_t bytes) {
  if (bytes == 0) return;
  share_range(static_cast<int64_t>(bytes), kCopyGrain, 1, [&](int64_t first, int64_t last, int) {
    std::memset(static_cast<char*>(dst) + first, 0, static_cast<size_t>(last - first));
  });
}

}  // namespace mxlite::cpu
