// LayerNorm of contiguous rows, forward and backward. A row stays in the L1 cache while its
// statistics and its result are computed. Included once per instruction set.
#pragma once
#include <algorithm>
#include <cmath>

#include "cpp/ops/cpu/nn/vector_kernels.h"
#include "cpp/ops/cpu/nn/vector_lanes.h"

namespace mxlite::cpu {
namespace {

// Number of elements that are summed in float before their sum is added to a double.
constexpr int64_t kNormPiece = 4096;
static_assert(kNormPiece % (4 * kVectorLanes) == 0);

inline int64_t whole_vectors(int64_t n) { return n - n % kVectorLanes; }

// Four independent sums hide the latency of an addition. vector(i) returns the terms of the
// elements from i on, scalar(i) the term of element i.
template <class V, class S>
MX_LANES_INLINE double sum_row(int64_t n, V vector, S scalar) {
  const int64_t whole = whole_vectors(n);
  double total = 0;
  for (int64_t i = 0; i < whole;) {
    const int64_t end = std::min(i + kNormPiece, whole);
    Floats a{}, b{}, c{}, d{};
    for (; i + 4 * kVectorLanes <= end; i += 4 * kVectorLanes) {
      a += vector(i);
      b += vector(i + kVectorLanes);
      c += vector(i + 2 * kVectorLanes);
      d += vector(i + 3 * kVectorLanes);
    }
    for (; i < end; i += kVectorLanes) a += vector(i);
    total += static_cast<double>(sum_lanes((a + b) + (c + d)));
  }
  float rest = 0;
  for (int64_t i = whole; i < n; ++i) rest += scalar(i);
  return total + static_cast<double>(rest);
}

struct RowMoments {
  float mean, scale;  // scale is 1 / std
  double std;
};

template <class T>
MX_LANES_INLINE RowMoments moments_of(const T* x, int64_t n, double eps) {
  const auto count = static_cast<double>(n);
  const auto mean = static_cast<float>(sum_row(
                                           n, [=](int64_t i) { return load(x + i); },
                                           [=](int64_t i) { return static_cast<float>(x[i]); }) /
                                       count);
  const double squares = sum_row(
      n,
      [=](int64_t i) {
        const Floats v = load(x + i) - mean;
        return v * v;
      },
      [=](int64_t i) {
        const float v = static_cast<float>(x[i]) - mean;
        return v * v;
      });
  const double std = std::sqrt(squares / count + eps);
  return {mean, static_cast<float>(1 / std), std};
}

template <class T>
void normalize_rows(const LayerNormRows<T>& rows, int64_t first, int64_t last) {
  const int64_t n = rows.length, whole = whole_vectors(n);
  const T *const gamma = rows.gamma, *const beta = rows.beta;
  for (int64_t r = first; r < last; ++r) {
    const T* const x = rows.data + r * n;
    T* const y = rows.output + r * n;
    const RowMoments m = moments_of(x, n, rows.eps);
    for (int64_t i = 0; i < whole; i += kVectorLanes)
      store(y + i, (load(x + i) - m.mean) * m.scale * load(gamma + i) + load(beta + i));
    for (int64_t i = whole; i < n; ++i)
      y[i] = static_cast<T>((static_cast<float>(x[i]) - m.mean) * m.scale *
                                static_cast<float>(gamma[i]) +
                            static_cast<float>(beta[i]));
    rows.mean[r] = static_cast<T>(m.mean);
    rows.std[r] = static_cast<T>(static_cast<float>(m.std));
  }
}

// With g = grad * gamma and x_hat the normalized data: data_grad = (g - mean(g) - x_hat * mean(g *
// x_hat)) / std. Processes kRows rows together, so that the sums of a column are loaded and stored
// once.
template <class T, int kRows>
struct GradRows {
  const LayerNormGradRows<T>& rows;
  const T *grad[kRows], *data[kRows];
  T* data_grad[kRows];
  RowMoments moments[kRows];
  double sum[kRows] = {};      // sum of g
  double product[kRows] = {};  // sum of g * x_hat

  GradRows(const LayerNormGradRows<T>& all, int64_t first) : rows(all) {
    for (int k = 0; k < kRows; ++k) {
      const int64_t at = (first + k) * all.length;
      grad[k] = all.grad + at;
      data[k] = all.data + at;
      data_grad[k] = all.data_grad + at;
      moments[k] = moments_of(data[k], all.length, all.eps);
    }
  }

  // Processes columns [begin, end), a multiple of the vector length.
  MX_LANES_INLINE void add_vectors(int64_t begin, int64_t end, float* gamma_grad,
                                   float* beta_grad) {
    Floats sums[kRows], products[kRows];
    for (int k = 0; k < kRows; ++k) sums[k] = products[k] = Floats{};
    for (int64_t i = begin; i < end; i += kVectorLanes) {
      const Floats gamma = load(rows.gamma + i);
      Floats to_gamma = load(gamma_grad + i), to_beta = load(beta_grad + i);
#pragma GCC unroll 4
      for (int k = 0; k < kRows; ++k) {
        const Floats g = load(grad[k] + i);
        const Floats x_hat = (load(data[k] + i) - moments[k].mean) * moments[k].scale;
        to_gamma += g * x_hat;
        to_beta += g;
        sums[k] += g * gamma;
        products[k] += g * gamma * x_hat;
      }
      store(gamma_grad + i, to_gamma);
      store(beta_grad + i, to_beta);
    }
    for (int k = 0; k < kRows; ++k) {
      sum[k] += static_cast<double>(sum_lanes(sums[k]));
      product[k] += static_cast<double>(sum_lanes(products[k]));
    }
  }

  void add_rest(int64_t begin, float* gamma_grad, float* beta_grad) {
    for (int64_t i = begin; i < rows.length; ++i)
      for (int k = 0; k < kRows; ++k) {
        const float g = static_cast<float>(grad[k][i]);
        const float x_hat = (static_cast<float>(data[k][i]) - moments[k].mean) * moments[k].scale;
        gamma_grad[i] += g * x_hat;
        beta_grad[i] += g;
        const float weighted = g * static_cast<float>(rows.gamma[i]);
        sum[k] += static_cast<double>(weighted);
        product[k] += static_cast<double>(weighted * x_hat);
      }
  }

  void write() const {
    const int64_t n = rows.length, whole = whole_vectors(n);
    for (int k = 0; k < kRows; ++k) {
      const float mean = moments[k].mean, scale = moments[k].scale;
      const auto offset = static_cast<float>(sum[k] / static_cast<double>(n));
      const auto slope = static_cast<float>(product[k] / static_cast<double>(n));
      for (int64_t i = 0; i < whole; i += kVectorLanes) {
        const Floats x_hat = (load(data[k] + i) - mean) * scale;
        store(data_grad[k] + i,
              (load(grad[k] + i) * load(rows.gamma + i) - offset - x_hat * slope) * scale);
      }
      for (int64_t i = whole; i < n; ++i) {
        const float x_hat = (static_cast<float>(data[k][i]) - mean) * scale;
        const float g = static_cast<float>(grad[k][i]) * static_cast<float>(rows.gamma[i]);
        data_grad[k][i] = static_cast<T>((g - offset - x_hat * slope) * scale);
      }
    }
  }

  void run(float* gamma_grad, float* beta_grad) {
    const int64_t whole = whole_vectors(rows.length);
    for (int64_t i = 0; i < whole; i += kNormPiece)
      add_vectors(i, std::min(i + kNormPiece, whole), gamma_grad, beta_grad);
    add_rest(whole, gamma_grad, beta_grad);
    write();
  }
};

template <class T>
void normalize_rows_backward(const LayerNormGradRows<T>& rows, int64_t first, int64_t last,
                             float* gamma_grad, float* beta_grad) {
  constexpr int kTogether = MX_WIDE ? 4 : 2;
  int64_t r = first;
  for (; r + kTogether <= last; r += kTogether)
    GradRows<T, kTogether>(rows, r).run(gamma_grad, beta_grad);
  for (; r < last; ++r) GradRows<T, 1>(rows, r).run(gamma_grad, beta_grad);
}

}  // namespace
}  // namespace mxlite::cpu
