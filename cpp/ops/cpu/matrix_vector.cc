#include "cpp/ops/cpu/matrix_vector.h"

#include <algorithm>
#include <cstring>

#include "cpp/core/subnormals.h"
#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::cpu {
namespace {

using Vec [[gnu::vector_size(32)]] = float;
constexpr int64_t kLanes = 8, kStep = 2 * kLanes;
constexpr int64_t kRows = 4;  // number of rows read concurrently

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
  for (int64_t r = 0; r < kCount; ++r) {
    const Vec both = sums[r][0] + sums[r][1];
    float sum = 0;
    for (int64_t lane = 0; lane < kLanes; ++lane) sum += both[lane];
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
