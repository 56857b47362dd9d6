// Factorizations of many matrices in double, with one block per matrix, so that float32 results are
// rounded once. If a factor does not exist, the result is NaN, where the CPU reports an error.
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/extreme.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/matrix/linalg.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

// More threads than rows would only wait at barriers.
unsigned threads_for(int64_t n) {
  return static_cast<unsigned>(
      std::clamp<int64_t>((n + kWarp - 1) / kWarp * kWarp, kWarp, kThreads));
}

// Scratch memory of the blocks; each block has `doubles` numbers.
struct Work {
  unsigned blocks;
  double* memory;
};
Work make_work(KernelContext& ctx, int64_t matrices, int64_t doubles) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  const int64_t each = std::max<int64_t>(doubles, 1) * static_cast<int64_t>(sizeof(double));
  const int64_t blocks = std::clamp<int64_t>(kMostBytes / each, 1, matrices);
  const int64_t some = std::min<int64_t>(blocks, blocks_per_task(ctx, matrices));
  return {static_cast<unsigned>(some),
          static_cast<double*>(ctx.scratch(static_cast<size_t>(some * each)))};
}

template <class T>
__device__ void load_block(const T* from, int64_t count, double* to) {
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = static_cast<double>(from[i]);
  __syncthreads();
}

// ---- Cholesky ---------------------------------------------------------------------------------

// Replaces the lower triangle of a by the factor. After a pivot that is not positive, results are
// NaN.
__device__ void cholesky(double* a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const double square = a[j * n + j];
    const double pivot = square > 0 ? sqrt(square) : NAN;
    __syncthreads();  // until all threads have read the pivot
    for (int64_t i = j + threadIdx.x; i < n; i += blockDim.x)
      a[i * n + j] = i == j ? pivot : a[i * n + j] / pivot;
    __syncthreads();
    const int64_t rest = n - j - 1;
    for (int64_t e = threadIdx.x; e < rest * rest; e += blockDim.x) {
      const int64_t i = j + 1 + e / rest, k = j + 1 + e % rest;
      if (k <= i) a[i * n + k] -= a[i * n + j] * a[k * n + j];
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    potrf_kernel(int64_t matrices, int64_t n, bool lower, const T* in, T* out, double* work) {
  const int64_t size = n * n;
  double* const a = work + blockIdx.x * size;
  for (int64_t m = blockIdx.x; m < matrices; m += gridDim.x) {
    load_block(in + m * size, size, a);
    cholesky(a, n);
    for (int64_t e = threadIdx.x; e < size; e += blockDim.x) {
      const int64_t i = e / n, j = e % n;
      const bool inside = lower ? j <= i : j >= i;
      out[m * size + e] = static_cast<T>(inside ? (lower ? a[e] : a[j * n + i]) : 0.0);
    }
    __syncthreads();
  }
}

// Computes columns of the inverse of a lower triangular matrix, then their products.
template <class T>
__global__ void __launch_bounds__(kThreads)
    potri_kernel(int64_t matrices, int64_t n, bool lower, const T* in, T* out, double* work) {
  const int64_t size = n * n;
  double* const inverse = work + blockIdx.x * size;
  for (int64_t m = blockIdx.x; m < matrices; m += gridDim.x) {
    const T* const from = in + m * size;
    const auto factor = [&](int64_t i, int64_t j) {
      return static_cast<double>(lower ? from[i * n + j] : from[j * n + i]);
    };
    for (int64_t j = threadIdx.x; j < n; j += blockDim.x)
      for (int64_t i = j; i < n; ++i) {
        double sum = i == j ? 1 : 0;
        for (int64_t k = j; k < i; ++k) sum -= factor(i, k) * inverse[k * n + j];
        inverse[i * n + j] = sum / factor(i, i);
      }
    __syncthreads();
    for (int64_t e = threadIdx.x; e < size; e += blockDim.x) {
      const int64_t i = e / n, j = e % n;
      double sum = 0;
      for (int64_t k = i > j ? i : j; k < n; ++k) sum += inverse[k * n + i] * inverse[k * n + j];
      out[m * size + e] = static_cast<T>(sum);
    }
    __syncthreads();
  }
}

// ---- Gauss ------------------------------------------------------------------------------------

// Gauss elimination with row pivots on an (n, width) array whose first n columns are the matrix.
// Entries below the diagonal are not kept. Returns the sign of the permutation, or 0 for a singular
// matrix.
__device__ int eliminate(double* a, int64_t n, int64_t width) {
  __shared__ int64_t pivot_row;
  int sign = 1;
  for (int64_t j = 0; j < n; ++j) {
    Extreme<double> most;
    for (int64_t i = j + threadIdx.x; i < n; i += blockDim.x) most.take(fabs(a[i * width + j]), i);
    most.join_block();
    if (threadIdx.x == 0) pivot_row = most.at < 0 ? j : most.at;
    __syncthreads();
    const int64_t row = pivot_row;
    const double pivot = a[row * width + j];
    __syncthreads();  // until all threads have read both rows
    if (pivot == 0) return 0;
    if (row != j) {
      sign = -sign;
      for (int64_t k = j + threadIdx.x; k < width; k += blockDim.x) {
        const double kept = a[j * width + k];
        a[j * width + k] = a[row * width + k];
        a[row * width + k] = kept;
      }
      __syncthreads();
    }
    const int64_t columns = width - j - 1;
    for (int64_t e = threadIdx.x; e < (n - j - 1) * columns; e += blockDim.x) {
      const int64_t i = j + 1 + e / columns, k = j + 1 + e % columns;
      a[i * width + k] -= a[i * width + j] / pivot * a[j * width + k];
    }
    __syncthreads();
  }
  return sign;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    inverse_kernel(int64_t matrices, int64_t n, const T* in, T* out, double* work) {
  const int64_t size = n * n, width = 2 * n;
  double* const a = work + blockIdx.x * n * width;
  for (int64_t m = blockIdx.x; m < matrices; m += gridDim.x) {
    for (int64_t e = threadIdx.x; e < n * width; e += blockDim.x) {
      const int64_t i = e / width, k = e % width;
      a[e] =
          k < n ? static_cast<double>(in[m * size + i * n + k]) : static_cast<double>(k - n == i);
    }
    __syncthreads();
    const bool regular = eliminate(a, n, width) != 0;
    // Every thread processes separate columns.
    for (int64_t c = threadIdx.x; c < n; c += blockDim.x)
      for (int64_t i = n - 1; i >= 0; --i) {
        double value = a[i * width + n + c];
        for (int64_t k = i + 1; k < n; ++k) value -= a[i * width + k] * a[k * width + n + c];
        value = regular ? value / a[i * width + i] : NAN;
        a[i * width + n + c] = value;
        out[m * size + i * n + c] = static_cast<T>(value);
      }
    __syncthreads();
  }
}

// log_abs is null if the determinant itself is computed.
template <class T>
__global__ void __launch_bounds__(kThreads)
    det_kernel(int64_t matrices, int64_t n, const T* in, T* result, T* log_abs, double* work) {
  const int64_t size = n * n;
  double* const a = work + blockIdx.x * size;
  for (int64_t m = blockIdx.x; m < matrices; m += gridDim.x) {
    load_block(in + m * size, size, a);
    double det = eliminate(a, n, n), log_sum = det == 0 ? -INFINITY : 0;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int64_t i = 0; det != 0 && i < n; ++i) {
        const double pivot = a[i * n + i];
        if (!log_abs) {
          det *= pivot;
        } else {
          log_sum += log(fabs(pivot));
          if (pivot < 0) det = -det;
        }
      }
      result[m] = static_cast<T>(det);
      if (log_abs) log_abs[m] = static_cast<T>(log_sum);
    }
    __syncthreads();
  }
}

// ---- orthogonal factors -----------------------------------------------------------------------

// Reflects `count` entries at `to` by the vector v: to -= tau * (to . v) * v. Entry 0 of v is not
// read and counts as 1.
__device__ void reflect(double* to, const double* v, double tau, int64_t count) {
  double along = 0;
  for (int64_t c = threadIdx.x; c < count; c += blockDim.x) along += to[c] * (c == 0 ? 1 : v[c]);
  along = tau * block_sum(along);
  for (int64_t c = threadIdx.x; c < count; c += blockDim.x) to[c] -= along * (c == 0 ? 1 : v[c]);
  __syncthreads();
}

// Householder reflections of the rows with the signs of the CPU's kernel. The work memory of a
// block holds the rows, one row of Q and one factor for each reflection.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gelqf_kernel(int64_t matrices, int64_t rows, int64_t n, const T* in, T* out_q, T* out_l,
                 double* work) {
  double* const a = work + blockIdx.x * (rows * n + n + rows);
  double* const q = a + rows * n;
  double* const taus = q + n;
  for (int64_t m = blockIdx.x; m < matrices; m += gridDim.x) {
    load_block(in + m * rows * n, rows * n, a);
    for (int64_t i = 0; i < rows; ++i) {
      double* const row = a + i * n + i;
      double rest = 0;
      for (int64_t c = 1 + threadIdx.x; c < n - i; c += blockDim.x) rest += row[c] * row[c];
      rest = block_sum(rest);
      const double first = row[0];
      const double diagonal = rest > 0 ? -copysign(sqrt(first * first + rest), first) : first;
      const double tau = rest > 0 ? (diagonal - first) / diagonal : 0;
      if (rest > 0)
        for (int64_t c = 1 + threadIdx.x; c < n - i; c += blockDim.x) row[c] /= first - diagonal;
      if (threadIdx.x == 0) taus[i] = tau;
      __syncthreads();
      for (int64_t j = i + 1; j < rows; ++j) reflect(a + j * n + i, row, tau, n - i);
      T* const l = out_l + (m * rows + i) * rows;
      for (int64_t j = threadIdx.x; j < rows; j += blockDim.x)
        l[j] = static_cast<T>(j < i ? a[i * n + j] : j == i ? diagonal : 0.0);
      for (int64_t c = threadIdx.x; c < n; c += blockDim.x) q[c] = c == i;
      __syncthreads();
      for (int64_t j = i; j >= 0; --j) reflect(q + j, a + j * n + j, taus[j], n - j);
      for (int64_t c = threadIdx.x; c < n; c += blockDim.x)
        out_q[(m * rows + i) * n + c] = static_cast<T>(q[c]);
      __syncthreads();
    }
  }
}

__device__ __forceinline__ void turn(double& x, double& y, double c, double s) {
  const double before = x;
  x = c * before - s * y;
  y = s * before + c * y;
}

// Cyclic Jacobi rotations until off-diagonal elements vanish; rows of u become eigenvectors.
__device__ void jacobi(double* a, double* u, int64_t n) {
  constexpr int kMaxSweeps = 64;
  for (int64_t i = threadIdx.x; i < n * n; i += blockDim.x) u[i] = i % (n + 1) == 0;
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    double off = 0, all = 0;
    for (int64_t i = threadIdx.x; i < n * n; i += blockDim.x) {
      all += a[i] * a[i];
      if (i % (n + 1) != 0) off += a[i] * a[i];
    }
    off = block_sum(off);
    all = block_sum(all);
    if (!(off > 1e-30 * all)) return;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        const double pq = a[p * n + q], pp = a[p * n + p], qq = a[q * n + q];
        __syncthreads();  // until all threads have read the elements
        if (pq == 0) continue;
        const double theta = (qq - pp) / (2 * pq);
        const double t = copysign(1.0, theta) / (fabs(theta) + hypot(theta, 1.0));
        const double c = 1 / hypot(t, 1.0), s = t * c;
        for (int64_t k = threadIdx.x; k < n; k += blockDim.x)
          turn(a[k * n + p], a[k * n + q], c, s);
        __syncthreads();
        for (int64_t k = threadIdx.x; k < n; k += blockDim.x) {
          turn(a[p * n + k], a[q * n + k], c, s);
          turn(u[p * n + k], u[q * n + k], c, s);
        }
        __syncthreads();
      }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    syevd_kernel(int64_t matrices, int64_t n, const T* in, T* out_u, T* values, double* work) {
  const int64_t size = n * n;
  double *const a = work + blockIdx.x * 2 * size, *const u = a + size;
  for (int64_t m = blockIdx.x; m < matrices; m += gridDim.x) {
    const T* const from = in + m * size;
    for (int64_t e = threadIdx.x; e < size; e += blockDim.x) {  // only the lower triangle is used
      const int64_t i = e / n, j = e % n;
      a[e] = static_cast<double>(i > j ? from[e] : from[j * n + i]);
    }
    __syncthreads();
    jacobi(a, u, n);
    // Sorts values in ascending order and makes the largest component of each vector positive. One
    // warp per vector.
    const int lane = threadIdx.x % kWarp;
    for (int64_t i = threadIdx.x / kWarp; i < n; i += blockDim.x / kWarp) {
      const double value = a[i * n + i];
      int64_t rank = 0;
      for (int64_t j = 0; j < n; ++j) {
        const double other = a[j * n + j];
        rank += other < value || (other == value && j < i);
      }
      Extreme<double> most;
      for (int64_t k = lane; k < n; k += kWarp) most.take(fabs(u[i * n + k]), k);
      most.join_warp();
      const double sign = most.at >= 0 && u[i * n + most.at] < 0 ? -1 : 1;
      for (int64_t k = lane; k < n; k += kWarp)
        out_u[m * size + rank * n + k] = static_cast<T>(sign * u[i * n + k]);
      if (lane == 0) values[m * n + rank] = static_cast<T>(value);
    }
    __syncthreads();
  }
}

// With P = dU U^T, the diagonal is dL, and other elements are (P_ij - P_ji) / (2 (L_i - L_j)).
// Equal eigenvalues have no unique eigenvectors, so these elements are 0.
template <class T>
__global__ void syevd_gradient(int64_t count, int64_t n, const T* p, const T* grad_l, const T* l,
                               T* out) {
  for (int64_t e = global_index(); e < count; e += grid_stride()) {
    const int64_t m = e / (n * n), i = e / n % n, j = e % n;
    const T gap = l[m * n + i] - l[m * n + j];
    out[e] = i == j     ? grad_l[m * n + i]
             : gap == 0 ? T(0)
                        : (p[e] - p[(m * n + j) * n + i]) / (2 * gap);
  }
}

// ---- calls ------------------------------------------------------------------------------------

// Calls fn(T{}, work) for the square matrices of v.
void for_matrices(KernelContext& ctx, DType dtype, const MatrixView& v, int64_t doubles,
                  auto&& fn) {
  if (v.outer == 0) return;
  const Work work = make_work(ctx, v.outer, doubles);
  if (dtype == DType::kFloat64)
    fn(double{}, work);
  else
    fn(float{}, work);
}

void potrf(KernelContext& ctx, const LinalgFactorParams& p, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_potrf", in[0].shape);
  const int64_t n = v.rows;
  for_matrices(ctx, in[0].dtype, v, n * n, [&]<class T>(T, Work w) {
    launch(ctx, potrf_kernel<T>, w.blocks, threads_for(n * n), v.outer, n, p.lower, in[0].as<T>(),
           out[0].as<T>(), w.memory);
  });
}
void potri(KernelContext& ctx, const LinalgFactorParams& p, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_potri", in[0].shape);
  const int64_t n = v.rows;
  for_matrices(ctx, in[0].dtype, v, n * n, [&]<class T>(T, Work w) {
    launch(ctx, potri_kernel<T>, w.blocks, threads_for(n * n), v.outer, n, p.lower, in[0].as<T>(),
           out[0].as<T>(), w.memory);
  });
}
void inverse(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_inverse", in[0].shape);
  const int64_t n = v.rows;
  for_matrices(ctx, in[0].dtype, v, 2 * n * n, [&]<class T>(T, Work w) {
    launch(ctx, inverse_kernel<T>, w.blocks, threads_for(n * n), v.outer, n, in[0].as<T>(),
           out[0].as<T>(), w.memory);
  });
}
template <bool log_of_it>
void determinant(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_det", in[0].shape);
  const int64_t n = v.rows;
  for_matrices(ctx, in[0].dtype, v, n * n, [&]<class T>(T, Work w) {
    T* const log_abs = log_of_it ? out[1].as<T>() : nullptr;
    launch(ctx, det_kernel<T>, w.blocks, threads_for(n * n), v.outer, n, in[0].as<T>(),
           out[0].as<T>(), log_abs, w.memory);
  });
}
void gelqf(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_gelqf", in[0].shape);
  const int64_t doubles = v.rows * v.cols + v.cols + v.rows;
  for_matrices(ctx, in[0].dtype, v, doubles, [&]<class T>(T, Work w) {
    launch(ctx, gelqf_kernel<T>, w.blocks, threads_for(v.cols), v.outer, v.rows, v.cols,
           in[0].as<T>(), out[0].as<T>(), out[1].as<T>(), w.memory);
  });
}
void syevd(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("linalg_syevd", in[0].shape);
  const int64_t n = v.rows;
  for_matrices(ctx, in[0].dtype, v, 2 * n * n, [&]<class T>(T, Work w) {
    launch(ctx, syevd_kernel<T>, w.blocks, threads_for(n), v.outer, n, in[0].as<T>(),
           out[0].as<T>(), out[1].as<T>(), w.memory);
  });
}
void syevd_backward(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t count = out[0].size(), n = out[0].shape.back();
  const auto run = [&]<class T>(T) {
    launch_items(ctx, syevd_gradient<T>, count, count, n, in[0].as<T>(), in[1].as<T>(),
                 in[2].as<T>(), out[0].as<T>());
  };
  if (out[0].dtype == DType::kFloat64)
    run(double{});
  else
    run(float{});
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&potrf>("linalg_potrf");
  ops.cuda_kernel<&potri>("linalg_potri");
  ops.cuda_kernel<&inverse>("linalg_inverse");
  ops.cuda_kernel<&determinant<false>>("linalg_det");
  ops.cuda_kernel<&determinant<true>>("linalg_slogdet");
  ops.cuda_kernel<&gelqf>("linalg_gelqf");
  ops.cuda_kernel<&syevd>("linalg_syevd");
  ops.cuda_kernel<&syevd_backward>("_linalg_syevd_backward");
});

}  // namespace mxlite::cuda
