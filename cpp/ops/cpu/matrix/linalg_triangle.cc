#include <algorithm>
#include <cmath>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/matrix/linalg.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void with_float_type(DType dtype, auto&& fn) {
  dtype == DType::kFloat64 ? fn(double{}) : fn(float{});
}

template <class T>
void copy_triangle(const T* from, T* to, int64_t n, bool lower) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      to[i * n + j] = (lower ? j <= i : j >= i) ? from[i * n + j] : T(0);
}

void trmm_native(KernelContext& ctx, const LinalgTriangularParams& p, Inputs in, Outputs out) {
  const MatrixView a = matrix_view("linalg_trmm", in[0].shape);
  const MatrixView b = matrix_view("linalg_trmm", in[1].shape);
  const int64_t n = a.rows, b_size = b.rows * b.cols;
  with_float_type(in[0].dtype, [&]<class T>(T) {
    T* const triangle = static_cast<T*>(ctx.scratch(static_cast<size_t>(n * n) * sizeof(T)));
    for (int64_t i = 0; i < a.outer; ++i) {
      copy_triangle(in[0].as<T>() + i * n * n, triangle, n, p.lower);
      const T* const from = in[1].as<T>() + i * b_size;
      T* const to = out[0].as<T>() + i * b_size;
      if (p.rightside)
        cpu::gemm(in[0].dtype, false, p.transpose, b.rows, b.cols, n, from, b.cols, triangle, n, to,
                  b.cols, p.alpha);
      else
        cpu::gemm(in[0].dtype, p.transpose, false, b.rows, b.cols, n, triangle, n, from, b.cols, to,
                  b.cols, p.alpha);
    }
  });
}

// Solve in place. For the left side, x_i = (b_i - sum_j A_ij x_j) / A_ii, where x_i and b_i are
// rows. For the right side, each row of x is solved separately, element by element.
template <class T>
void solve_left(const T* a, bool transpose, bool lower, int64_t n, T* x, int64_t cols) {
  const auto entry = [&](int64_t i, int64_t j) { return transpose ? a[j * n + i] : a[i * n + j]; };
  const bool forward = lower != transpose;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = forward ? step : n - 1 - step;
    T* const row = x + i * cols;
    for (int64_t j = forward ? 0 : i + 1; j < (forward ? i : n); ++j) {
      const T factor = entry(i, j);
      const T* const known = x + j * cols;
      for (int64_t c = 0; c < cols; ++c) row[c] -= factor * known[c];
    }
    const T inverse = T(1) / entry(i, i);
    for (int64_t c = 0; c < cols; ++c) row[c] *= inverse;
  }
}

template <class T>
void solve_right(const T* a, bool transpose, bool lower, int64_t n, T* x, int64_t rows) {
  const auto entry = [&](int64_t i, int64_t j) { return transpose ? a[j * n + i] : a[i * n + j]; };
  const bool forward = lower == transpose;  // x A = b: column j depends on the columns i with
                                            // nonzero A_ij
  for (int64_t r = 0; r < rows; ++r) {
    T* const row = x + r * n;
    for (int64_t step = 0; step < n; ++step) {
      const int64_t j = forward ? step : n - 1 - step;
      T sum = row[j];
      for (int64_t i = forward ? 0 : j + 1; i < (forward ? j : n); ++i) sum -= row[i] * entry(i, j);
      row[j] = sum / entry(j, j);
    }
  }
}

void trsm_native(KernelContext&, const LinalgTriangularParams& p, Inputs in, Outputs out) {
  const MatrixView a = matrix_view("linalg_trsm", in[0].shape);
  const MatrixView b = matrix_view("linalg_trsm", in[1].shape);
  const int64_t n = a.rows, b_size = b.rows * b.cols;
  with_float_type(in[0].dtype, [&]<class T>(T) {
    const T alpha = static_cast<T>(p.alpha);
    cpu::parallel_for(a.outer, b_size * n, [&](int64_t i) {
      const T* const matrix = in[0].as<T>() + i * n * n;
      const T* const from = in[1].as<T>() + i * b_size;
      T* const x = out[0].as<T>() + i * b_size;
      for (int64_t j = 0; j < b_size; ++j) x[j] = alpha * from[j];
      if (p.rightside)
        solve_right(matrix, p.transpose, p.lower, n, x, b.rows);
      else
        solve_left(matrix, p.transpose, p.lower, n, x, b.cols);
    });
  });
}

void triangle_native(KernelContext&, const LinalgTrianParams& p, Inputs in, Outputs out) {
  const MatrixView a = matrix_view("_linalg_triangle", in[0].shape);
  with_float_type(in[0].dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < a.outer; ++i)
      copy_triangle(in[0].as<T>() + i * a.rows * a.rows, out[0].as<T>() + i * a.rows * a.rows,
                    a.rows, p.is_lower());
  });
}

// Returns the axes of a copy from (batch, length) to a diagonal of (batch, n, n), or back.
cpu::CopyAxes diagonal_axes(const Shape& matrices, const Shape& packed, bool to_matrices) {
  const int64_t n = matrices.back(), length = packed.back(), batch = packed.size() / length;
  cpu::CopyAxes axes;
  const cpu::CopyAxis outer{batch, n * n, length}, inner{length, n + 1, 1};
  for (const cpu::CopyAxis& a : {outer, inner})
    axes.push_back(to_matrices ? a : cpu::CopyAxis{a.size, a.src, a.dst});
  return axes;
}

int64_t diagonal_start(int64_t offset, int64_t n) { return offset >= 0 ? offset : -offset * n; }

void extractdiag_native(KernelContext&, const LinalgOffsetParams& p, Inputs in, Outputs out) {
  const size_t bytes = dtype_size(in[0].dtype);
  cpu::strided_copy(bytes, diagonal_axes(in[0].shape, out[0].shape, false), out[0].data,
                    cpu::at(in[0].data, diagonal_start(p.offset, in[0].shape.back()), bytes));
}

void makediag_native(KernelContext&, const LinalgOffsetParams& p, Inputs in, Outputs out) {
  const size_t bytes = dtype_size(in[0].dtype);
  cpu::zero_fill(out[0].data, out[0].bytes());
  if (in[0].size() == 0) return;
  cpu::strided_copy(bytes, diagonal_axes(out[0].shape, in[0].shape, true),
                    cpu::at(out[0].data, diagonal_start(p.offset, out[0].shape.back()), bytes),
                    in[0].data);
}

// Calls fn(offset in the matrices, offset in the packed triangles) for every entry of the
// triangles: row after row of lower triangles, column after column of upper triangles.
void for_each_triangle_entry(const LinalgTrianParams& p, int64_t batch, int64_t n, auto fn) {
  int64_t packed = 0;
  const int64_t line_step = p.is_lower() ? n : 1, step = p.is_lower() ? 1 : n;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = p.distance(); i < n; ++i)
      for (int64_t j = 0; j <= i - p.distance(); ++j)
        fn(b * n * n + i * line_step + j * step, packed++);
}

void extracttrian_native(KernelContext&, const LinalgTrianParams& p, Inputs in, Outputs out) {
  const MatrixView a = matrix_view("linalg_extracttrian", in[0].shape);
  cpu::dispatch_size(dtype_size(in[0].dtype), [&]<class T>(T) {
    for_each_triangle_entry(p, a.outer, a.rows, [&](int64_t at, int64_t packed) {
      out[0].as<T>()[packed] = in[0].as<T>()[at];
    });
  });
}

void maketrian_native(KernelContext&, const LinalgTrianParams& p, Inputs in, Outputs out) {
  const MatrixView a = matrix_view("linalg_maketrian", out[0].shape);
  cpu::zero_fill(out[0].data, out[0].bytes());
  cpu::dispatch_size(dtype_size(in[0].dtype), [&]<class T>(T) {
    for_each_triangle_entry(p, a.outer, a.rows, [&](int64_t at, int64_t packed) {
      out[0].as<T>()[at] = in[0].as<T>()[packed];
    });
  });
}

void sumlogdiag_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const MatrixView a = matrix_view("linalg_sumlogdiag", in[0].shape);
  with_float_type(in[0].dtype, [&]<class T>(T) {
    for (int64_t b = 0; b < a.outer; ++b) {
      double sum = 0;
      for (int64_t i = 0; i < a.rows; ++i)
        sum += std::log(static_cast<double>(in[0].as<T>()[(b * a.rows + i) * a.rows + i]));
      out[0].as<T>()[b] = static_cast<T>(sum);
    }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<&trmm_native>>("linalg_trmm", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<&trsm_native>>("linalg_trsm", kWorkerOnly);
  ops.cpu_kernel<&triangle_native>("_linalg_triangle");
  ops.cpu_kernel<&extractdiag_native>("linalg_extractdiag");
  ops.cpu_kernel<&makediag_native>("linalg_makediag");
  ops.cpu_kernel<&extracttrian_native>("linalg_extracttrian");
  ops.cpu_kernel<&maketrian_native>("linalg_maketrian");
  ops.cpu_kernel<&sumlogdiag_native>("linalg_sumlogdiag");
});

}  // namespace mxlite
