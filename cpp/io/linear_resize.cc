#include "cpp/io/linear_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace mxlite::io {
namespace {

constexpr float kOne = 2048;

struct Position {
  int pixel;
  float fraction;
};

Position position(const ResizeAxis& axis, int i) {
  const double whole = std::floor(axis.origin);
  const auto place =
      static_cast<float>((axis.begin + i + 0.5) * axis.scale - 0.5 + (axis.origin - whole));
  const float below = std::floor(place);
  return {static_cast<int>(below) + static_cast<int>(whole), place - below};
}

int16_t weight(float share) { return static_cast<int16_t>(std::lrintf(share * kOne)); }

LinearTaps empty_taps(const ResizeAxis& axis) {
  LinearTaps taps;
  const auto count = static_cast<size_t>(axis.count);
  taps.first.resize(count);
  taps.second.resize(count);
  taps.weights.resize(2 * count);
  return taps;
}

void resize_gray(const unsigned char* row, const int* first, const int16_t* weights, int count,
                 int16_t* output) {
  for (int i = 0; i < count; ++i) {
    const unsigned char* p = row + first[i];
    output[i] = static_cast<int16_t>((p[0] * weights[2 * i] + p[1] * weights[2 * i + 1]) >> 4);
  }
}

void resize_color(const unsigned char* row, const int* first, const int16_t* weights, int count,
                  int16_t* output) {
  int i = 0;
#ifdef __AVX2__
  // Reorders pixels r0 g0 b0 a0 r1 g1 b1 a1 to 16-bit pairs r0 r1 g0 g1 .., so that one
  // multiply-add suffices.
  const __m256i pairs = _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1, 0,
                                         -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
  const auto two_pixels = [&](int j) {
    const auto load = [&](int k) {
      return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + 4 * int64_t{first[k]}));
    };
    const auto weigh = [&](int k) {
      int32_t both = 0;
      std::memcpy(&both, weights + 2 * int64_t{k}, sizeof(both));
      return both;
    };
    const __m256i pixels = _mm256_shuffle_epi8(_mm256_set_m128i(load(j + 1), load(j)), pairs);
    const __m256i w = _mm256_set_m128i(_mm_set1_epi32(weigh(j + 1)), _mm_set1_epi32(weigh(j)));
    return _mm256_srli_epi32(_mm256_madd_epi16(pixels, w), 4);
  };
  for (; i + 4 <= count; i += 4) {
    const __m256i packed = _mm256_packs_epi32(two_pixels(i), two_pixels(i + 2));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + 4 * int64_t{i}),
                        _mm256_permute4x64_epi64(packed, 0xD8));
  }
#endif
  for (; i < count; ++i) {
    const unsigned char* p = row + 4 * int64_t{first[i]};
    for (int c = 0; c < 4; ++c)
      output[4 * i + c] =
          static_cast<int16_t>((p[c] * weights[2 * i] + p[c + 4] * weights[2 * i + 1]) >> 4);
  }
}

void blend(const int16_t* above, const int16_t* below, const int16_t* weights, int count,
           unsigned char* output) {
  const int w0 = weights[0], w1 = weights[1];
  int i = 0;
#ifdef __AVX2__
  const __m256i v0 = _mm256_set1_epi16(weights[0]), v1 = _mm256_set1_epi16(weights[1]);
  const __m256i two = _mm256_set1_epi16(2);
  const auto load = [](const int16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  };
  const auto sixteen = [&](int j) {
    const __m256i sum = _mm256_add_epi16(_mm256_mulhi_epi16(load(above + j), v0),
                                         _mm256_mulhi_epi16(load(below + j), v1));
    return _mm256_srai_epi16(_mm256_add_epi16(sum, two), 2);
  };
  for (; i + 32 <= count; i += 32) {
    const __m256i packed = _mm256_packus_epi16(sixteen(i), sixteen(i + 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + i),
                        _mm256_permute4x64_epi64(packed, 0xD8));
  }
#endif
  for (; i < count; ++i) {
    const int value = (((above[i] * w0) >> 16) + ((below[i] * w1) >> 16) + 2) >> 2;
    output[i] = static_cast<unsigned char>(std::clamp(value, 0, 255));
  }
}

}  // namespace

LinearTaps column_taps(const ResizeAxis& axis) {
  LinearTaps taps = empty_taps(axis);
  const int last = axis.lowest + axis.size - 1;
  for (int i = 0; i < axis.count; ++i) {
    Position p = position(axis, i);
    if (p.pixel < axis.lowest) p = {axis.lowest, 0};
    if (p.pixel >= last) p = {last, 0};
    const auto slot = static_cast<size_t>(i);
    taps.first[slot] = p.pixel;
    taps.second[slot] = std::min(p.pixel + 1, last);
    taps.weights[2 * slot] = weight(1 - p.fraction);
    taps.weights[2 * slot + 1] = weight(p.fraction);
  }
  return taps;
}

LinearTaps row_taps(const ResizeAxis& axis) {
  LinearTaps taps = empty_taps(axis);
  const int last = axis.lowest + axis.size - 1;
  for (int i = 0; i < axis.count; ++i) {
    const Position p = position(axis, i);
    const auto slot = static_cast<size_t>(i);
    taps.first[slot] = std::clamp(p.pixel, axis.lowest, last);
    taps.second[slot] = std::clamp(p.pixel + 1, axis.lowest, last);
    taps.weights[2 * slot] = weight(1 - p.fraction);
    taps.weights[2 * slot + 1] = weight(p.fraction);
  }
  return taps;
}

LinearResizer::LinearResizer(const Window& window, int channels, const LinearTaps& columns,
                             const LinearTaps& rows)
    : window_(window), channels_(channels), columns_(columns), rows_(rows) {
  MX_ASSERT(channels == 1 || channels == 4);
  const size_t count = columns.first.size() * static_cast<size_t>(channels);
  for (std::vector<int16_t>& line : lines_) line.resize(count);
  output_.resize(count);
}

// Returns a source row resized in width. Caches two rows, because an output row needs two adjacent
// source rows.
const int16_t* LinearResizer::horizontal(int source_row) {
  const auto slot = static_cast<size_t>(source_row & 1);
  int16_t* line = lines_[slot].data();
  if (line_rows_[slot] == source_row) return line;
  line_rows_[slot] = source_row;
  const unsigned char* row = window_.data + (source_row - window_.area.y) * window_.stride -
                             static_cast<int64_t>(window_.area.x) * channels_;
  (channels_ == 1 ? resize_gray : resize_color)(row, columns_.first.data(), columns_.weights.data(),
                                                static_cast<int>(columns_.first.size()), line);
  return line;
}

const unsigned char* LinearResizer::row(int y) {
  const auto slot = static_cast<size_t>(y);
  const int16_t* above = horizontal(rows_.first[slot]);
  const int16_t* below = horizontal(rows_.second[slot]);
  blend(above, below, rows_.weights.data() + 2 * slot, static_cast<int>(output_.size()),
        output_.data());
  return output_.data();
}

}  // namespace mxlite::io
