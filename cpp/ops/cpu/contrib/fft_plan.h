// Fourier transform of complex vectors of any length: radix-4 and radix-2 passes for powers of two,
// otherwise Bluestein's convolution with a power-of-two length.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "cpp/ops/cpu/contrib/fft_numbers.h"
#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::cpu {

template <class R>
using Complex = fft::Complex<R>;

// The tables are computed once per call and read by all threads. Each thread has separate memory of
// work() numbers.
template <class R>
class FftPlan {
 public:
  using C = Complex<R>;

  static int64_t table_size(int64_t n) {
    return fft::power_of_two(n) ? n : 2 * fft::inner_length(n) + n;
  }
  static int64_t work_size(int64_t n) { return 2 * fft::inner_length(n); }

  // `table` has memory for table_size(n) numbers, `work` for work_size(n) numbers.
  FftPlan(int64_t n, C* table, C* work) : n_(n), m_(fft::inner_length(n)), roots_(table) {
    for (int64_t k = 0; k < m_; ++k) roots_[k] = fft::root_of_unity<R>(k, m_);
    if (n_ == m_) return;
    chirp_ = table + m_;
    filter_ = chirp_ + n_;
    for (int64_t k = 0; k < n_; ++k) chirp_[k] = fft::chirp<R>(k, n_);
    std::fill_n(work, m_, C{0, 0});
    for (int64_t k = 0; k < n_; ++k) work[k] = work[(m_ - k) % m_] = chirp_[k].conj();
    const C* result = passes(work, work + m_);
    const R scale = 1 / static_cast<R>(m_);  // scale of the inverse transform in run()
    for (int64_t k = 0; k < m_; ++k) filter_[k] = result[k] * scale;
  }

  // Transforms the n numbers at the start of `work`. Returns the result's address within `work`.
  const C* run(C* work) const {
    if (n_ == m_) return passes(work, work + m_);
    for (int64_t k = 0; k < n_; ++k) work[k] = work[k] * chirp_[k];
    std::fill_n(work + n_, m_ - n_, C{0, 0});
    C* first = passes(work, work + m_);
    C* other = first == work ? work + m_ : work;
    for (int64_t k = 0; k < m_; ++k) first[k] = (first[k] * filter_[k]).conj();
    C* result = passes(first, other);
    for (int64_t k = 0; k < n_; ++k) result[k] = result[k].conj() * chirp_[k];
    return result;
  }

 private:
  // Stockham's self-sorting passes; `from` and `to` are swapped after each pass.
  C* passes(C* from, C* to) const {
    int64_t length = m_, stride = 1;
    for (; length >= 4; length /= 4, stride *= 4, std::swap(from, to)) {
      const int64_t quarter = length / 4;
      for (int64_t p = 0; p < quarter; ++p) {
        const C w1 = roots_[p * stride], w2 = roots_[2 * p * stride], w3 = roots_[3 * p * stride];
        const C* in = from + p * stride;
        C* out = to + 4 * p * stride;
        for (int64_t q = 0; q < stride; ++q)
          fft::butterfly(in + q, quarter * stride, out + q, stride, w1, w2, w3);
      }
    }
    if (length == 2) {
      for (int64_t q = 0; q < stride; ++q) {
        const C a = from[q], b = from[q + stride];
        to[q] = a + b;
        to[q + stride] = a - b;
      }
      std::swap(from, to);
    }
    return from;
  }

  int64_t n_, m_;
  C *roots_, *chirp_ = nullptr, *filter_ = nullptr;
};

}  // namespace mxlite::cpu
