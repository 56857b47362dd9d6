// Sums of floats: short pieces are summed in the compute type, and their sums in double.
#pragma once
#include <cstdint>

namespace mxlite::cpu {

// Returns the sum of value(i) for 0 <= i < n. Four independent sums hide the latency of an
// addition.
template <class Acc, class F>
inline double sum_of(int64_t n, F value) {
  constexpr int64_t kPart = 128, kPiece = 4 * kPart;
  double total = 0;
  int64_t i = 0;
  for (; i + kPiece <= n; i += kPiece) {
    Acc a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t k = i; k < i + kPart; ++k) {
      a += value(k);
      b += value(k + kPart);
      c += value(k + 2 * kPart);
      d += value(k + 3 * kPart);
    }
    total += static_cast<double>((a + b) + (c + d));
  }
  Acc rest = 0;
#pragma omp simd reduction(+ : rest)
  for (int64_t k = i; k < n; ++k) rest += value(k);
  return total + static_cast<double>(rest);
}

}  // namespace mxlite::cpu
