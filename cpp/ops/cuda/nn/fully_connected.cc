#include "cpp/ops/nn/fully_connected.h"

#include "cpp/ops/cuda/matrix/padded_gemm.h"
#include "cpp/ops/cuda/nn/convolution_epilogue.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

void fully_connected(KernelContext& ctx, const FullyConnectedParams& p, Inputs in, Outputs out) {
  const auto [rows, columns] = fully_connected_rows(p, in[0].shape);
  // cuBLASLt cannot add a bias to float64 results.
  const bool bias_after = !p.no_bias && (in[0].dtype == DType::kFloat64 || columns == 0);
  padded_gemm(ctx,
              {.dtype = in[0].dtype,
               .trans_b = true,
               .m = rows,
               .n = p.num_hidden,
               .k = columns,
               .lda = columns,
               .ldb = columns,
               .ldc = p.num_hidden,
               .bias = !p.no_bias && !bias_after},
              {in[0].data, in[1].data, out[0].data, p.no_bias ? nullptr : in[2].data});
  if (bias_after) add_bias(ctx, in[0].dtype, rows, p.num_hidden, 1, in[2].data, out[0].data);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::fully_connected>("FullyConnected");
});

}  // namespace mxlite::cuda
