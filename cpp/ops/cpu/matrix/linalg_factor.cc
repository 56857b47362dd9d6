// Unblocked algorithms on small dense matrices. Working copies are double, so results are rounded
// once.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cpp/core/threads.h"
#include "cpp/ops/matrix/linalg.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class T>
void load(const T* from, int64_t count, double* to) {
  std::copy_n(from, count, to);
}
template <class T>
void store(const double* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

// Calls fn(T{}, matrix index, work) for every matrix, where `work` has room for `doubles` numbers.
void for_each_matrix(KernelContext& ctx, DType dtype, int64_t count, int64_t doubles, auto fn) {
  auto* const work =
      static_cast<double*>(ctx.scratch(static_cast<size_t>(doubles) * sizeof(double)));
  for (int64_t i = 0; i < count; ++i)
    dtype == DType::kFloat64 ? fn(double{}, i, work) : fn(float{}, i, work);
}

void transpose(double* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) std::swap(a[i * n + j], a[j * n + i]);
}

void cholesky(double* a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = j; i < n; ++i) {
      double sum = a[i * n + j];
      for (int64_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      if (i == j) {
        MX_CHECK(sum > 0, "linalg_potrf: the matrix must be positive definite, but leading minor ",
                 j + 1, " is not positive");
        a[j * n + j] = std::sqrt(sum);
      } else {
        a[i * n + j] = sum / a[j * n + j];
      }
    }
    for (int64_t i = 0; i < j; ++i) a[i * n + j] = 0;
  }
}

void potrf_native(KernelContext& ctx, const LinalgFactorParams& p, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_potrf", in[0].shape);
  const int64_t n = v.rows, size = n * n;
  for_each_matrix(ctx, in[0].dtype, v.outer, size, [&]<class T>(T, int64_t i, double* a) {
    load(in[0].as<T>() + i * size, size, a);
    cholesky(a, n);
    if (!p.lower) transpose(a, n);
    store(a, size, out[0].as<T>() + i * size);
  });
}

// Computes columns of the inverse of a lower triangular matrix, then their products.
void potri_native(KernelContext& ctx, const LinalgFactorParams& p, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_potri", in[0].shape);
  const int64_t n = v.rows, size = n * n;
  for_each_matrix(ctx, in[0].dtype, v.outer, 2 * size, [&]<class T>(T, int64_t m, double* l) {
    double* const inverse = l + size;
    load(in[0].as<T>() + m * size, size, l);
    if (!p.lower) transpose(l, n);
    std::fill_n(inverse, size, 0.0);
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = j; i < n; ++i) {
        double sum = i == j ? 1 : 0;
        for (int64_t k = j; k < i; ++k) sum -= l[i * n + k] * inverse[k * n + j];
        inverse[i * n + j] = sum / l[i * n + i];
      }
    T* const to = out[0].as<T>() + m * size;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (int64_t k = i; k < n; ++k) sum += inverse[k * n + i] * inverse[k * n + j];
        to[i * n + j] = to[j * n + i] = static_cast<T>(sum);
      }
  });
}

// Gauss elimination with row pivots on an (n, width) array whose first n columns are the matrix.
// Returns the sign of the permutation, or 0 for a singular matrix.
int eliminate(double* a, int64_t n, int64_t width) {
  int sign = 1;
  for (int64_t j = 0; j < n; ++j) {
    int64_t pivot = j;
    for (int64_t i = j + 1; i < n; ++i)
      if (std::abs(a[i * width + j]) > std::abs(a[pivot * width + j])) pivot = i;
    if (a[pivot * width + j] == 0) return 0;
    if (pivot != j) {
      std::swap_ranges(a + j * width, a + (j + 1) * width, a + pivot * width);
      sign = -sign;
    }
    for (int64_t i = j + 1; i < n; ++i) {
      const double factor = a[i * width + j] / a[j * width + j];
      if (factor == 0) continue;
      double* const row = a + i * width;
      const double* const above = a + j * width;
#pragma omp simd
      for (int64_t k = j; k < width; ++k) row[k] -= factor * above[k];
    }
  }
  return sign;
}

// Replaces the columns right of the matrix by the solutions of its linear equations. Returns false
// for a singular matrix.
bool solve(double* a, int64_t n, int64_t width) {
  if (eliminate(a, n, width) == 0) return false;
  for (int64_t i = n - 1; i >= 0; --i) {
    double* const row = a + i * width;
    for (int64_t k = i + 1; k < n; ++k) {
      const double factor = row[k];
      const double* const below = a + k * width;
#pragma omp simd
      for (int64_t c = n; c < width; ++c) row[c] -= factor * below[c];
    }
    for (int64_t c = n; c < width; ++c) row[c] /= row[i];
  }
  return true;
}

void solve_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("_npi_solve", in[0].shape);
  const int64_t n = v.rows, cols = in[1].shape.back(), width = n + cols;
  for_each_matrix(ctx, in[0].dtype, v.outer, n * width, [&]<class T>(T, int64_t m, double* a) {
    for (int64_t i = 0; i < n; ++i) {
      load(in[0].as<T>() + (m * n + i) * n, n, a + i * width);
      load(in[1].as<T>() + (m * n + i) * cols, cols, a + i * width + n);
    }
    MX_CHECK(solve(a, n, width), "linalg.solve: matrix ", m, " is singular");
    for (int64_t i = 0; i < n; ++i)
      store(a + i * width + n, cols, out[0].as<T>() + (m * n + i) * cols);
  });
}

void inverse_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_inverse", in[0].shape);
  const int64_t n = v.rows, size = n * n, width = 2 * n;
  for_each_matrix(ctx, in[0].dtype, v.outer, n * width, [&]<class T>(T, int64_t m, double* a) {
    std::fill_n(a, n * width, 0.0);
    for (int64_t i = 0; i < n; ++i) {
      load(in[0].as<T>() + m * size + i * n, n, a + i * width);
      a[i * width + n + i] = 1;
    }
    MX_CHECK(solve(a, n, width), "linalg_inverse: matrix ", m, " is singular");
    for (int64_t i = 0; i < n; ++i) store(a + i * width + n, n, out[0].as<T>() + m * size + i * n);
  });
}

struct LogDeterminant {
  double sign, log_abs;
};

template <class T>
LogDeterminant log_determinant(const T* from, int64_t n, double* a) {
  load(from, n * n, a);
  double sign = eliminate(a, n, n), log_abs = 0;
  if (sign == 0) return {0, -INFINITY};
  for (int64_t i = 0; i < n; ++i) {
    log_abs += std::log(std::abs(a[i * n + i]));
    if (a[i * n + i] < 0) sign = -sign;
  }
  return {sign, log_abs};
}

void det_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_det", in[0].shape);
  const int64_t n = v.rows, size = n * n;
  for_each_matrix(ctx, in[0].dtype, v.outer, size, [&]<class T>(T, int64_t m, double* a) {
    load(in[0].as<T>() + m * size, size, a);
    double det = eliminate(a, n, n);
    for (int64_t i = 0; det != 0 && i < n; ++i) det *= a[i * n + i];
    out[0].as<T>()[m] = static_cast<T>(det);
  });
}

void slogdet_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_slogdet", in[0].shape);
  const int64_t n = v.rows, size = n * n;
  for_each_matrix(ctx, in[0].dtype, v.outer, size, [&]<class T>(T, int64_t m, double* a) {
    const LogDeterminant d = log_determinant(in[0].as<T>() + m * size, n, a);
    out[0].as<T>()[m] = static_cast<T>(d.sign);
    out[1].as<T>()[m] = static_cast<T>(d.log_abs);
  });
}

// Reflects `count` entries at `to` by the vector v: to -= tau * (to . v) * v. Entry 0 of v is not
// read and counts as 1.
void reflect(double* to, const double* v, double tau, int64_t count) {
  const double along = tau * (to[0] + std::inner_product(v + 1, v + count, to + 1, 0.0));
  to[0] -= along;
  for (int64_t c = 1; c < count; ++c) to[c] -= along * v[c];
}

// Householder reflections of the rows with LAPACK's signs: an element on the diagonal of L is
// negative where the reflected row began with a positive number, and keeps its sign where the rest
// of that row is 0.
void gelqf_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_gelqf", in[0].shape);
  const int64_t m = v.rows, n = v.cols;
  const int64_t doubles = 2 * m * n + m * m + m;
  for_each_matrix(ctx, in[0].dtype, v.outer, doubles, [&]<class T>(T, int64_t b, double* a) {
    double* const q = a + m * n;
    double* const l = q + m * n;
    double* const taus = l + m * m;
    load(in[0].as<T>() + b * m * n, m * n, a);
    std::fill_n(q, m * n + m * m, 0.0);
    for (int64_t i = 0; i < m; ++i) {
      double* const row = a + i * n + i;
      const double first = row[0];
      const double rest = std::inner_product(row + 1, row + n - i, row + 1, 0.0);
      const double length = std::sqrt(first * first + rest);
      const double diagonal = rest > 0 ? -std::copysign(length, first) : first;
      taus[i] = rest > 0 ? (diagonal - first) / diagonal : 0;
      if (rest > 0)
        for (int64_t c = 1; c < n - i; ++c) row[c] /= first - diagonal;
      for (int64_t j = i + 1; j < m; ++j) reflect(a + j * n + i, row, taus[i], n - i);
      std::copy_n(a + i * n, i, l + i * m);
      l[i * m + i] = diagonal;
      q[i * n + i] = 1;
      for (int64_t j = i; j >= 0; --j) reflect(q + i * n + j, a + j * n + j, taus[j], n - j);
    }
    store(q, m * n, out[0].as<T>() + b * m * n);
    store(l, m * m, out[1].as<T>() + b * m * m);
  });
}

// Cyclic Jacobi rotations until off-diagonal elements vanish; rows of u become eigenvectors.
void jacobi(double* a, double* u, int64_t n) {
  constexpr int kMaxSweeps = 64;
  for (int64_t i = 0; i < n * n; ++i) u[i] = i % (n + 1) == 0;
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        all += a[i * n + j] * a[i * n + j];
        if (i != j) off += a[i * n + j] * a[i * n + j];
      }
    if (!(off > 1e-30 * all)) return;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(theta, 1.0));
        const double c = 1 / std::hypot(t, 1.0), s = t * c;
        for (int64_t k = 0; k < n; ++k) {
          const double kp = a[k * n + p], kq = a[k * n + q];
          a[k * n + p] = c * kp - s * kq;
          a[k * n + q] = s * kp + c * kq;
        }
        for (double* rows : {a, u})
          for (int64_t k = 0; k < n; ++k) {
            const double pk = rows[p * n + k], qk = rows[q * n + k];
            rows[p * n + k] = c * pk - s * qk;
            rows[q * n + k] = s * pk + c * qk;
          }
      }
  }
}

void syevd_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_syevd", in[0].shape);
  const int64_t n = v.rows, size = n * n;
  for_each_matrix(ctx, in[0].dtype, v.outer, 2 * size, [&]<class T>(T, int64_t m, double* a) {
    double* const u = a + size;
    const T* const from = in[0].as<T>() + m * size;
    for (int64_t i = 0; i < n; ++i)  // only the lower triangle is used, as in LAPACK
      for (int64_t j = 0; j < n; ++j) a[i * n + j] = from[std::max(i, j) * n + std::min(i, j)];
    jacobi(a, u, n);
    T* const values = out[1].as<T>() + m * n;
    for (int64_t i = 0; i < n; ++i) {
      int64_t smallest = i;
      for (int64_t j = i + 1; j < n; ++j)
        if (a[j * n + j] < a[smallest * n + smallest]) smallest = j;
      std::swap(a[i * n + i], a[smallest * n + smallest]);
      if (smallest != i) std::swap_ranges(u + i * n, u + (i + 1) * n, u + smallest * n);
      double* const row = u + i * n;
      const auto by_size = [](double x, double y) { return std::abs(x) < std::abs(y); };
      // Makes the largest component of each vector positive, as in 1.x.
      if (n > 0 && *std::max_element(row, row + n, by_size) < 0)
        std::transform(row, row + n, row, std::negate<>());
      values[i] = static_cast<T>(a[i * n + i]);
      store(u + i * n, n, out[0].as<T>() + m * size + i * n);
    }
  });
}

// With P = dU U^T, the diagonal is dL, and other elements are (P_ij - P_ji) / (2 (L_i - L_j)).
// Equal eigenvalues have no unique eigenvectors, so these elements are 0.
void syevd_backward_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("_linalg_syevd_backward", in[0].shape);
  const int64_t n = v.rows, size = n * n;
  for_each_matrix(ctx, in[0].dtype, v.outer, 1, [&]<class T>(T, int64_t m, double*) {
    const T* const p = in[0].as<T>() + m * size;
    const T* const grad_l = in[1].as<T>() + m * n;
    const T* const l = in[2].as<T>() + m * n;
    T* const to = out[0].as<T>() + m * size;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const T gap = l[i] - l[j];
        to[i * n + j] = i == j     ? grad_l[i]
                        : gap == 0 ? T(0)
                                   : (p[i * n + j] - p[j * n + i]) / (2 * gap);
      }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&potrf_native>("linalg_potrf", kWorkerOnly);
  ops.cpu_kernel<&potri_native>("linalg_potri", kWorkerOnly);
  ops.cpu_kernel<&inverse_native>("linalg_inverse", kWorkerOnly);
  ops.cpu_kernel<&solve_native>("_npi_solve", kWorkerOnly);
  ops.cpu_kernel<&det_native>("linalg_det", kWorkerOnly);
  ops.cpu_kernel<&slogdet_native>("linalg_slogdet", kWorkerOnly);
  ops.cpu_kernel<&gelqf_native>("linalg_gelqf", kWorkerOnly);
  ops.cpu_kernel<&syevd_native>("linalg_syevd", kWorkerOnly);
  ops.cpu_kernel<&syevd_backward_native>("_linalg_syevd_backward");
});

}  // namespace mxlite
