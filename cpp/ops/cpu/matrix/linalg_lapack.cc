// Decompositions by LAPACK. Its matrices have contiguous columns, so it reads and writes the
// transposed matrices of mxlite.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpp/ops/cpu/matrix/lapack.h"
#include "cpp/ops/matrix/linalg.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class T>
std::string routine(const char* name) {
  return std::string(sizeof(T) == sizeof(double) ? "d" : "s") + name;
}

void for_float_type(DType dtype, auto fn) { dtype == DType::kFloat64 ? fn(double{}) : fn(float{}); }

// Writes the transposed (rows, cols) matrix.
template <class T>
void transpose(const T* from, int64_t rows, int64_t cols, T* to) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) to[j * rows + i] = from[i * cols + j];
}

template <class T>
bool all_finite(const T* values, int64_t count) {
  return std::all_of(values, values + count, [](T x) { return std::isfinite(x); });
}

// Calls run(memory, its size) twice: first to learn the size that the routine wants.
template <class T>
void with_workspace(auto run) {
  T wanted = 0;
  run(&wanted, int64_t{-1});
  std::vector<T> memory(static_cast<size_t>(std::max(wanted, T(1))));
  run(memory.data(), static_cast<int64_t>(memory.size()));
}

// Computes the reduced SVD of one (m, n) matrix per call of solve().
template <class T>
class SvdSolver {
 public:
  SvdSolver(const char* op, int64_t m, int64_t n)
      : m_(m),
        n_(n),
        k_(std::min(m, n)),
        gesdd_(reinterpret_cast<lapack::Gesdd<T>>(lapack::find(op, routine<T>("gesdd")))),
        copy_(static_cast<size_t>(m * n)),
        integers_(static_cast<size_t>(8 * k_)) {}

  // Computes u (m, k), s (k) and vt (k, n) of matrix `index`.
  void solve(const T* a, int64_t index, T* u, T* s, T* vt) {
    std::copy_n(a, m_ * n_, copy_.data());
    int64_t info = -1;
    if (all_finite(a, m_ * n_))
      with_workspace<T>([&](T* work, int64_t count) {
        info = 0;
        gesdd_("S", &n_, &m_, copy_.data(), &n_, s, vt, &n_, u, &k_, work, &count, integers_.data(),
               &info, 1);
      });
    MX_CHECK(lapack::low_half(info) == 0, "linalg.svd: the singular values of matrix ", index,
             " cannot be computed; all of its elements must be finite");
  }

 private:
  int64_t m_, n_, k_;
  lapack::Gesdd<T> gesdd_;
  std::vector<T> copy_;
  std::vector<int64_t> integers_;
};

void svd_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("_npi_svd", in[0].shape);
  const int64_t m = v.rows, n = v.cols, k = std::min(m, n);
  for_float_type(in[0].dtype, [&]<class T>(T) {
    SvdSolver<T> solver("_npi_svd", m, n);
    for (int64_t i = 0; i < v.outer; ++i)
      solver.solve(in[0].as<T>() + i * m * n, i, out[0].as<T>() + i * m * k, out[1].as<T>() + i * k,
                   out[2].as<T>() + i * k * n);
  });
}

// Sums the outer products v_r u_r^T / s_r.
void pinv_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("_npi_pinv", in[0].shape);
  const int64_t m = v.rows, n = v.cols, k = std::min(m, n);
  for_float_type(in[0].dtype, [&]<class T>(T) {
    SvdSolver<T> solver("_npi_pinv", m, n);
    std::vector<T> u(static_cast<size_t>(m * k)), s(static_cast<size_t>(k)),
        vt(static_cast<size_t>(k * n));
    for (int64_t b = 0; b < v.outer; ++b) {
      solver.solve(in[0].as<T>() + b * m * n, b, u.data(), s.data(), vt.data());
      T* const to = out[0].as<T>() + b * n * m;
      std::fill_n(to, n * m, T(0));
      for (int64_t r = 0; r < k && s[static_cast<size_t>(r)] > in[1].as<T>()[b] * s[0]; ++r)
        for (int64_t i = 0; i < n; ++i) {
          const T factor = vt[static_cast<size_t>(r * n + i)] / s[static_cast<size_t>(r)];
          for (int64_t j = 0; j < m; ++j)
            to[i * m + j] += factor * u[static_cast<size_t>(j * k + r)];
        }
    }
  });
}

void qr_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("_npi_qr", in[0].shape);
  const int64_t m = v.rows, n = v.cols, k = std::min(m, n), size = m * n;
  for_float_type(in[0].dtype, [&]<class T>(T) {
    const auto geqrf =
        reinterpret_cast<lapack::Geqrf<T>>(lapack::find("_npi_qr", routine<T>("geqrf")));
    const auto orgqr =
        reinterpret_cast<lapack::Orgqr<T>>(lapack::find("_npi_qr", routine<T>("orgqr")));
    std::vector<T> a(static_cast<size_t>(size)), tau(static_cast<size_t>(k));
    for (int64_t b = 0; b < v.outer; ++b) {
      transpose(in[0].as<T>() + b * size, m, n, a.data());
      int64_t info = 0;
      with_workspace<T>([&](T* work, int64_t count) {
        geqrf(&m, &n, a.data(), &m, tau.data(), work, &count, &info);
      });
      T* const r = out[1].as<T>() + b * k * n;
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < n; ++j)
          r[i * n + j] = i <= j ? a[static_cast<size_t>(j * m + i)] : T(0);
      with_workspace<T>([&](T* work, int64_t count) {
        orgqr(&m, &k, &k, a.data(), &m, tau.data(), work, &count, &info);
      });
      transpose(a.data(), k, m, out[0].as<T>() + b * m * k);
    }
  });
}

void eig_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const MatrixView v = matrix_view("_npi_eig", in[0].shape);
  const int64_t n = v.rows, size = n * n;
  for_float_type(in[0].dtype, [&]<class T>(T) {
    const auto geev =
        reinterpret_cast<lapack::Geev<T>>(lapack::find("_npi_eig", routine<T>("geev")));
    std::vector<T> a(static_cast<size_t>(size)), vectors(a.size()),
        imaginary(static_cast<size_t>(n));
    const int64_t one = 1;
    for (int64_t b = 0; b < v.outer; ++b) {
      transpose(in[0].as<T>() + b * size, n, n, a.data());
      int64_t info = -1;
      if (all_finite(a.data(), size))
        with_workspace<T>([&](T* work, int64_t count) {
          T unused = 0;
          info = 0;
          geev("N", "V", &n, a.data(), &n, out[0].as<T>() + b * n, imaginary.data(), &unused, &one,
               vectors.data(), &n, work, &count, &info, 1, 1);
        });
      MX_CHECK(lapack::low_half(info) == 0, "linalg.eig: the eigenvalues of matrix ", b,
               " cannot be computed; all of its elements must be finite");
      MX_CHECK(std::all_of(imaginary.begin(), imaginary.end(), [](T x) { return x == 0; }),
               "linalg.eig: eigenvalues must be real, but matrix ", b,
               " has complex eigenvalues, for which there is no dtype");
      transpose(vectors.data(), n, n, out[1].as<T>() + b * size);
    }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&svd_native>("_npi_svd", kWorkerOnly);
  ops.cpu_kernel<&pinv_native>("_npi_pinv", kWorkerOnly);
  ops.cpu_kernel<&qr_native>("_npi_qr", kWorkerOnly);
  ops.cpu_kernel<&eig_native>("_npi_eig", kWorkerOnly);
});

}  // namespace mxlite
