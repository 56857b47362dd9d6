#include "cpp/ops/cpu/matrix_vector.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "cpp/core/subnormals.h"
#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::cpu {
namespace {

using Vec [[gnu::vector_size(32)]] = float;
constexpr int64_t kLanes = 8, kStep = 2 * kLanes;
constexpr int64_t kRows = 4;  // number of rows read concurrently; the totals need 4

Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <int64_t kCount>
void some_rows(const MatrixVector& p, int64_t row) {
  const float* a = p.matrix + row * p.stride;
  Vec sums[kCount][2] = {};
  int64_t j = 0;
  for (; j + kStep <= p.columns; j += kStep) {
    const Vec x0 = load(p.x + j), x1 = load(p.x + j + kLanes);
    for (int64_t r = 0; r < kCount; ++r) {
      sums[r][0] += load(a + r * p.stride + j) * x0;
      sums[r][1] += load(a + r * p.stride + j + kLanes) * x1;
    }
  }
  float totals[kCount];
  if constexpr (kCount == kRows) {  // pairs of lanes are added, so that no lane is read by itself
    const auto pair = [&](int64_t r) {
      return _mm256_hadd_ps(sums[r][0] + sums[r][1], sums[r + 1][0] + sums[r + 1][1]);
    };
    const __m256 all = _mm256_hadd_ps(pair(0), pair(2));
    _mm_storeu_ps(totals, _mm256_castps256_ps128(all) + _mm256_extractf128_ps(all, 1));
  } else {
    for (int64_t r = 0; r < kCount; ++r) {
      const Vec both = sums[r][0] + sums[r][1];
      totals[r] = 0;
      for (int64_t lane = 0; lane < kLanes; ++lane) totals[r] += both[lane];
    }
  }
  for (int64_t r = 0; r < kCount; ++r) {
    float sum = totals[r];
    for (int64_t tail = j; tail < p.columns; ++tail) sum += a[r * p.stride + tail] * p.x[tail];
    if (p.start) sum += p.start[row + r];
    p.y[row + r] = p.relu && sum < 0 ? 0.0f : sum;  // keeps NaN
  }
}

}  // namespace

void matrix_vector(const MatrixVector& p) {
  const FlushSubnormals flush;
  const int64_t groups = (p.rows + kRows - 1) / kRows;
  parallel_for(groups, std::max<int64_t>(1, kRows * p.columns / 4), [&](int64_t group) {
    const int64_t row = group * kRows;
    if (row + kRows <= p.rows)
      some_rows<kRows>(p, row);
    else
      for (int64_t r = row; r < p.rows; ++r) some_rows<1>(p, r);
  });
}

}  // namespace mxlite::cpu
