// Products, triangles and diagonals; factorizations are in linalg_factor.cu.
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/matrix/gemm.h"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/matrix/linalg.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

// ---- products ---------------------------------------------------------------------------------

__global__ void scale_array(int64_t n, double factor, const void* from, void* to, DType dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    store_any(to, dtype, i, factor * load_any<double>(from, dtype, i));
}

// out = alpha op(a) op(b) + beta c. c has out's layout and is not read if beta is 0.
template <class P>
void multiply(KernelContext& ctx, const char* op, const P& p, const TensorRef& a,
              const TensorRef& b, const TensorRef& out, double beta, const void* c) {
  const int64_t n = out.size();
  if (n == 0) return;
  const MatrixView va = matrix_view(op, a.shape, p.axis), vb = matrix_view(op, b.shape, p.axis);
  const MatrixView vo = matrix_view(op, out.shape, p.axis);
  Gemm g{.dtype = a.dtype,
         .trans_a = p.transpose_a,
         .trans_b = p.transpose_b,
         .m = vo.rows,
         .n = vo.cols,
         .k = p.transpose_a ? va.rows : va.cols,
         .lda = va.middle * va.cols,
         .ldb = vb.middle * vb.cols,
         .ldc = vo.middle * vo.cols,
         .batch = vo.middle,
         .stride_a = va.cols,
         .stride_b = vb.cols,
         .stride_c = vo.cols,
         .alpha = p.alpha,
         .beta = beta};
  if (g.k == 0)
    return beta != 0 ? launch_items(ctx, scale_array, n, n, beta, c, out.data, out.dtype)
                     : zero_bytes(ctx, out.data, out.bytes());
  const auto size = [](const MatrixView& v) { return v.rows * v.middle * v.cols; };
  int64_t calls = vo.outer;
  if (vo.middle == 1) {
    g.batch = vo.outer;
    g.stride_a = size(va);
    g.stride_b = size(vb);
    g.stride_c = size(vo);
    calls = 1;
  }
  const size_t bytes = dtype_size(a.dtype);
  for (int64_t i = 0; i < calls; ++i)
    gemm(ctx, g,
         {.a = at(a.data, i * size(va), bytes),
          .b = at(b.data, i * size(vb), bytes),
          .c = at(out.data, i * size(vo), bytes),
          .addend = beta != 0 ? at(c, i * size(vo), bytes) : nullptr});
}

void linalg_gemm(KernelContext& ctx, const LinalgGemmParams& p, Inputs in, Outputs out) {
  multiply(ctx, "linalg_gemm", p, in[0], in[1], out[0], p.beta, in[2].data);
}

void linalg_gemm2(KernelContext& ctx, const LinalgGemm2Params& p, Inputs in, Outputs out) {
  multiply(ctx, "linalg_gemm2", p, in[0], in[1], out[0], 0, nullptr);
}

void linalg_syrk(KernelContext& ctx, const LinalgSyrkParams& p, Inputs in, Outputs out) {
  multiply(ctx, "linalg_syrk", LinalgGemm2Params{p.transpose, !p.transpose, p.alpha}, in[0], in[0],
           out[0], 0, nullptr);
}

template <class T>
__global__ void copy_triangles(int64_t count, int64_t n, bool lower, const T* from, T* to) {
  for (int64_t i = global_index(); i < count; i += grid_stride()) {
    const int64_t row = i / n % n, column = i % n;
    to[i] = (lower ? column <= row : column >= row) ? from[i] : T(0);
  }
}
void take_triangles(KernelContext& ctx, const TensorRef& from, bool lower, void* to) {
  const int64_t count = from.size();
  dispatch_float_compute(from.dtype, [&]<class T>(T) {
    launch_items(ctx, copy_triangles<T>, count, count, from.shape.back(), lower, from.as<T>(),
                 static_cast<T*>(to));
  });
}

void linalg_trmm(KernelContext& ctx, const LinalgTriangularParams& p, Inputs in, Outputs out) {
  const MatrixView a = matrix_view("linalg_trmm", in[0].shape);
  const MatrixView b = matrix_view("linalg_trmm", in[1].shape);
  void* const triangle = ctx.scratch(in[0].bytes());
  take_triangles(ctx, in[0], p.lower, triangle);
  const int64_t n = a.rows, b_size = b.rows * b.cols;
  Gemm g{.dtype = in[0].dtype,
         .m = b.rows,
         .n = b.cols,
         .k = n,
         .ldc = b.cols,
         .batch = a.outer,
         .stride_c = b_size,
         .alpha = p.alpha};
  (p.rightside ? g.trans_b : g.trans_a) = p.transpose;
  (p.rightside ? g.ldb : g.lda) = n;
  (p.rightside ? g.stride_b : g.stride_a) = n * n;
  (p.rightside ? g.lda : g.ldb) = b.cols;
  (p.rightside ? g.stride_a : g.stride_b) = b_size;
  if (p.rightside)
    gemm(ctx, g, {in[1].data, triangle, out[0].data});
  else
    gemm(ctx, g, {triangle, in[1].data, out[0].data});
}

void linalg_triangle(KernelContext& ctx, const LinalgTrianParams& p, Inputs in, Outputs out) {
  take_triangles(ctx, in[0], p.is_lower(), out[0].data);
}

// ---- triangles --------------------------------------------------------------------------------

struct Triangular {
  int64_t matrices, n, lines, b_size;  // lines are the columns of B, or its rows if A is on the
                                       // right
  bool transpose, forward, right;
};

// One thread solves one column of a B, or one row if A is on the right. In both cases x_i = (alpha
// b_i - sum over known j of A_ij x_j) / A_ii.
template <class T>
__global__ void solve_lines(const __grid_constant__ Triangular t, T alpha, const T* a, const T* b,
                            T* out) {
  const int64_t step = t.right ? 1 : t.lines;  // distance between entries of a line
  for (int64_t i = global_index(); i < t.matrices * t.lines; i += grid_stride()) {
    const int64_t matrix = i / t.lines, line = i % t.lines;
    const int64_t start = matrix * t.b_size + line * (t.right ? t.n : 1);
    const T* const entries = a + matrix * t.n * t.n;
    T* const x = out + start;
    for (int64_t k = 0; k < t.n; ++k) {
      const int64_t row = t.forward ? k : t.n - 1 - k;
      T sum = alpha * b[start + row * step];
      for (int64_t j = t.forward ? 0 : row + 1; j < (t.forward ? row : t.n); ++j)
        sum -= (t.transpose ? entries[j * t.n + row] : entries[row * t.n + j]) * x[j * step];
      x[row * step] = sum / entries[row * t.n + row];
    }
  }
}

void trsm(KernelContext& ctx, const LinalgTriangularParams& p, Inputs in, Outputs out) {
  const MatrixView a = matrix_view("linalg_trsm", in[0].shape);
  const MatrixView b = matrix_view("linalg_trsm", in[1].shape);
  Triangular t{a.outer, a.rows, p.rightside ? b.rows : b.cols, b.rows * b.cols};
  t.right = p.rightside;
  t.transpose = p.transpose != p.rightside;  // for rows, x A = b means A^T x = b
  t.forward = p.lower != t.transpose;
  dispatch_float_compute(in[0].dtype, [&]<class T>(T) {
    launch_items(ctx, solve_lines<T>, t.matrices * t.lines, t, static_cast<T>(p.alpha),
                 in[0].as<T>(), in[1].as<T>(), out[0].as<T>());
  });
}

// Copies between (batch, length) and a diagonal of (batch, n, n), in either direction.
void move_diagonals(KernelContext& ctx, const TensorRef& matrices, const TensorRef& packed,
                    int64_t offset, bool to_matrices) {
  if (packed.size() == 0) return;
  const int64_t n = matrices.shape.back(), length = packed.shape.back();
  const int64_t batch = packed.size() / length;
  const size_t bytes = dtype_size(packed.dtype);
  void* const diagonal = at(matrices.data, offset >= 0 ? offset : -offset * n, bytes);
  Walk<2> walk;
  if (to_matrices) {
    walk.add(batch, {n * n, length});
    walk.add(length, {n + 1, 1});
  } else {
    walk.add(batch, {length, n * n});
    walk.add(length, {1, n + 1});
  }
  walk.finish();
  if (to_matrices)
    strided_copy(ctx, bytes, walk, diagonal, packed.data);
  else
    strided_copy(ctx, bytes, walk, packed.data, diagonal);
}

void extractdiag(KernelContext& ctx, const LinalgOffsetParams& p, Inputs in, Outputs out) {
  move_diagonals(ctx, in[0], out[0], p.offset, false);
}
void makediag(KernelContext& ctx, const LinalgOffsetParams& p, Inputs in, Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  move_diagonals(ctx, out[0], in[0], p.offset, true);
}

// Lower triangles are packed row by row, upper triangles column by column, so that line i begins
// after 1 + 2 + ... + i entries.
struct Packed {
  int64_t n, distance, side;  // side is that of the triangle
  bool lower;
  __device__ int64_t length() const { return side * (side + 1) / 2; }
  __device__ int64_t in_matrix(int64_t k) const {
    // Finds line r of the triangle, the last line that begins at or before entry k. The rounded
    // square root gives r or a neighboring line.
    auto r = static_cast<int64_t>((sqrt(8.0 * static_cast<double>(k) + 1) - 1) / 2);
    while (r * (r + 1) / 2 > k) --r;
    while ((r + 1) * (r + 2) / 2 <= k) ++r;
    const int64_t in_line = k - r * (r + 1) / 2;
    return lower ? (r + distance) * n + in_line : in_line * n + r + distance;
  }
};

template <class Word>
__global__ void move_triangles(int64_t count, Packed p, bool to_matrices, const Word* from,
                               Word* to) {
  for (int64_t i = global_index(); i < count; i += grid_stride()) {
    const int64_t place = i / p.length() * p.n * p.n + p.in_matrix(i % p.length());
    if (to_matrices)
      to[place] = from[i];
    else
      to[i] = from[place];
  }
}

void move_packed(KernelContext& ctx, const LinalgTrianParams& p, int64_t n, const TensorRef& packed,
                 bool to_matrices, const TensorRef& from, const TensorRef& to) {
  const Packed shape{n, p.distance(), n - p.distance(), p.is_lower()};
  dispatch_size(dtype_size(packed.dtype), [&]<class Word>(Word) {
    launch_items(ctx, move_triangles<Word>, packed.size(), packed.size(), shape, to_matrices,
                 from.as<Word>(), to.as<Word>());
  });
}

void extracttrian(KernelContext& ctx, const LinalgTrianParams& p, Inputs in, Outputs out) {
  move_packed(ctx, p, in[0].shape.back(), out[0], false, in[0], out[0]);
}
void maketrian(KernelContext& ctx, const LinalgTrianParams& p, Inputs in, Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  move_packed(ctx, p, out[0].shape.back(), in[0], true, in[0], out[0]);
}

template <class T>
__global__ void sum_log_diagonals(int64_t matrices, int64_t n, const T* from, T* to) {
  for (int64_t m = blockIdx.x; m < matrices; m += gridDim.x) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
      sum += log(static_cast<double>(from[(m * n + i) * n + i]));
    sum = block_sum(sum);
    if (threadIdx.x == 0) to[m] = static_cast<T>(sum);
  }
}

void sumlogdiag(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const MatrixView a = matrix_view("linalg_sumlogdiag", in[0].shape);
  if (a.outer == 0) return;
  dispatch_float_compute(in[0].dtype, [&]<class T>(T) {
    launch(ctx, sum_log_diagonals<T>, blocks_per_task(ctx, a.outer), kThreads, a.outer, a.rows,
           in[0].as<T>(), out[0].as<T>());
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&linalg_gemm>("linalg_gemm");
  ops.cuda_kernel<&linalg_gemm2>("linalg_gemm2");
  ops.cuda_kernel<&linalg_syrk>("linalg_syrk");
  ops.cuda_kernel<&linalg_trmm>("linalg_trmm");
  ops.cuda_kernel<&linalg_triangle>("_linalg_triangle");
  ops.cuda_kernel<&trsm>("linalg_trsm");
  ops.cuda_kernel<&extractdiag>("linalg_extractdiag");
  ops.cuda_kernel<&makediag>("linalg_makediag");
  ops.cuda_kernel<&extracttrian>("linalg_extracttrian");
  ops.cuda_kernel<&maketrian>("linalg_maketrian");
  ops.cuda_kernel<&sumlogdiag>("linalg_sumlogdiag");
});

}  // namespace mxlite::cuda
