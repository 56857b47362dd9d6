// The loops of NormRows. Included once per instruction set.
#pragma once
#include <algorithm>
#include <type_traits>

#include "cpp/ops/cpu/nn/norm/norm_lanes.h"
#include "cpp/ops/cpu/nn/norm/norm_rows.h"

namespace mxlite::cpu {
namespace {

// Calls fn(element, channel, lanes) for every register of the rows.
inline void for_vectors(int64_t rows, int64_t width, auto&& fn) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < width; c += kLane) fn(r * width + c, c, lanes(width - c));
}

// Sums over rows. The sums of a channel are loaded and stored once per kTogether rows and are
// divided among kSums registers.
template <int64_t kRows, int kParts>
struct Summing {
  static constexpr int64_t kTogether = kRows;
  static constexpr int kSums = kParts;
};
using SumWide = Summing<4, 1>;
// In blocks, a row is one register. With a single sum, each addition would wait for the previous
// addition.
using SumBlocks = std::conditional_t<MX_WIDE, SumWide, Summing<16, 4>>;

// Calls fn(row, sum) for the rows [0, count), alternating between the sums.
template <int kSums, class F>
inline void for_sums(int64_t count, F&& fn) {
  int64_t i = 0;
  if constexpr (kSums > 1)
    for (; i + kSums <= count; i += kSums) MX_UNROLL for (int k = 0; k < kSums; ++k) fn(i + k, k);
  for (; i < count; ++i) fn(i, 0);
}
template <int kSums>
inline Vec total(const Vec (&sums)[kSums]) {
  Vec v = sums[0];
  MX_UNROLL for (int k = 1; k < kSums; ++k) v = add(v, sums[k]);
  return v;
}

template <class Sum, class T>
void add_row_moments(const T* data, int64_t rows, int64_t width, const float* pivot, float* sum,
                     float* square) {
  for (int64_t r = 0; r < rows; r += Sum::kTogether) {
    const int64_t count = std::min(rows - r, Sum::kTogether);
    const T* const first = data + r * width;
    for (int64_t c = 0; c < width; c += kLane) {
      const NormLanes m = lanes(width - c);
      const Vec middle = load(pivot + c);
      Vec s[Sum::kSums] = {load(sum + c)}, q[Sum::kSums] = {load(square + c)};
      for_sums<Sum::kSums>(count, [&](int64_t i, int k) {
        const Vec d = keep(m, sub(load(first + i * width + c, m), middle));
        s[k] = add(s[k], d);
        q[k] = madd(d, d, q[k]);
      });
      store(sum + c, total(s));
      store(square + c, total(q));
    }
  }
}

template <class T>
void add_moments(const T* data, int64_t rows, int64_t width, const float* pivot, float* sum,
                 float* square) {
  const auto add_rows =
      width == kLane ? add_row_moments<SumBlocks, T> : add_row_moments<SumWide, T>;
  add_rows(data, rows, width, pivot, sum, square);
}

template <class T, NormEnd kEnd>
void normalize(const T* data, const T* added, T* output, int64_t rows, int64_t width,
               const float* mean, const float* scale, const float* shift) {
  for_vectors(rows, width, [&](int64_t at, int64_t c, NormLanes m) {
    Vec v = madd(sub(load(data + at, m), load(mean + c)), load(scale + c), load(shift + c));
    // Rounds to T before the addition, as a separate BatchNorm would.
    if constexpr (kEnd == NormEnd::kAddRelu) v = add(rounded<T>(v), load(added + at, m));
    if constexpr (kEnd != NormEnd::kPlain) v = relu(v);
    store(output + at, m, v);
  });
}

// Returns the output's gradient where relu passed values, and 0 elsewhere.
template <class T, NormEnd kEnd>
inline Vec passed_grad(const T* grad, const T* output, int64_t at, NormLanes m, Vec centered,
                       Vec scale, Vec shift) {
  if constexpr (kEnd == NormEnd::kRelu)
    return load_where_positive(grad + at, m, madd(centered, scale, shift));
  if constexpr (kEnd == NormEnd::kAddRelu)
    return load_where_positive(grad + at, m, load(output + at, m));
  return load(grad + at, m);
}

template <class Sum, class T, NormEnd kEnd>
void add_row_grads(const T* grad, const T* data, const T* output, T* added_grad, int64_t rows,
                   int64_t width, const float* mean, const float* scale, const float* shift,
                   float* sum, float* product) {
  for (int64_t r = 0; r < rows; r += Sum::kTogether) {
    const int64_t count = std::min(rows - r, Sum::kTogether);
    for (int64_t c = 0; c < width; c += kLane) {
      const NormLanes m = lanes(width - c);
      const Vec middle = load(mean + c), factor = load(scale + c), offset = load(shift + c);
      Vec s[Sum::kSums] = {load(sum + c)}, q[Sum::kSums] = {load(product + c)};
      for_sums<Sum::kSums>(count, [&](int64_t i, int k) {
        const int64_t at = (r + i) * width + c;
        const Vec centered = keep(m, sub(load(data + at, m), middle));
        const Vec g = passed_grad<T, kEnd>(grad, output, at, m, centered, factor, offset);
        if constexpr (kEnd == NormEnd::kAddRelu) store(added_grad + at, m, g);
        s[k] = add(s[k], g);
        q[k] = madd(g, centered, q[k]);
      });
      store(sum + c, total(s));
      store(product + c, total(q));
    }
  }
}

template <class T, NormEnd kEnd>
void add_grads(const T* grad, const T* data, const T* output, T* added_grad, int64_t rows,
               int64_t width, const float* mean, const float* scale, const float* shift, float* sum,
               float* product) {
  const auto add_rows =
      width == kLane ? add_row_grads<SumBlocks, T, kEnd> : add_row_grads<SumWide, T, kEnd>;
  add_rows(grad, data, output, added_grad, rows, width, mean, scale, shift, sum, product);
}

template <class T, NormEnd kEnd>
void apply_grads(const T* grad, const T* data, T* data_grad, int64_t rows, int64_t width,
                 const float* mean, const float* scale, const float* shift, const float* offset,
                 const float* slope) {
  constexpr NormEnd kFrom = kEnd == NormEnd::kRelu ? kEnd : NormEnd::kPlain;
  for_vectors(rows, width, [&](int64_t at, int64_t c, NormLanes m) {
    const Vec centered = sub(load(data + at, m), load(mean + c));
    const Vec factor = load(scale + c);
    const Vec g = passed_grad<T, kFrom>(grad, static_cast<const T*>(nullptr), at, m, centered,
                                        factor, load(shift + c));
    const Vec rest = nmadd(centered, load(slope + c), sub(g, load(offset + c)));
    store(data_grad + at, m, mul(factor, rest));
  });
}

template <class T>
constexpr NormRows<T> kLoops = {
    add_moments<T>,
    {normalize<T, NormEnd::kPlain>, normalize<T, NormEnd::kRelu>, normalize<T, NormEnd::kAddRelu>},
    {add_grads<T, NormEnd::kPlain>, add_grads<T, NormEnd::kRelu>, add_grads<T, NormEnd::kAddRelu>},
    {apply_grads<T, NormEnd::kPlain>, apply_grads<T, NormEnd::kRelu>,
     apply_grads<T, NormEnd::kAddRelu>}};

}  // namespace
}  // namespace mxlite::cpu
