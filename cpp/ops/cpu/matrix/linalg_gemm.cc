#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/matrix/linalg.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class P>
void multiply(const char* op, const P& p, const TensorRef& a, const TensorRef& b,
              const TensorRef& out, double beta) {
  const MatrixView va = matrix_view(op, a.shape, p.axis), vb = matrix_view(op, b.shape, p.axis);
  const MatrixView vo = matrix_view(op, out.shape, p.axis);
  const int64_t k = p.transpose_a ? va.rows : va.cols;
  const size_t bytes = dtype_size(a.dtype);
  const auto size = [](const MatrixView& v) { return v.rows * v.middle * v.cols; };
  if (vo.middle == 1)
    return cpu::gemm_batch(a.dtype, p.transpose_a, p.transpose_b, vo.outer, vo.rows, vo.cols, k,
                           a.data, va.cols, size(va), b.data, vb.cols, size(vb), out.data, vo.cols,
                           size(vo), p.alpha, beta);
  for (int64_t o = 0; o < vo.outer; ++o)
    cpu::gemm_batch(a.dtype, p.transpose_a, p.transpose_b, vo.middle, vo.rows, vo.cols, k,
                    cpu::at(a.data, o * size(va), bytes), va.middle * va.cols, va.cols,
                    cpu::at(b.data, o * size(vb), bytes), vb.middle * vb.cols, vb.cols,
                    cpu::at(out.data, o * size(vo), bytes), vo.middle * vo.cols, vo.cols, p.alpha,
                    beta);
}

void gemm_native(KernelContext&, const LinalgGemmParams& p, Inputs in, Outputs out) {
  cpu::contiguous_copy(out[0].data, in[2].data, out[0].bytes());
  multiply("linalg_gemm", p, in[0], in[1], out[0], p.beta);
}

void gemm2_native(KernelContext&, const LinalgGemm2Params& p, Inputs in, Outputs out) {
  multiply("linalg_gemm2", p, in[0], in[1], out[0], 0);
}

void syrk_native(KernelContext&, const LinalgSyrkParams& p, Inputs in, Outputs out) {
  multiply("linalg_syrk", LinalgGemm2Params{p.transpose, !p.transpose, p.alpha}, in[0], in[0],
           out[0], 0);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<&gemm_native>>("linalg_gemm", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<&gemm2_native>>("linalg_gemm2", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<&syrk_native>>("linalg_syrk", kWorkerOnly);
});

}  // namespace mxlite
