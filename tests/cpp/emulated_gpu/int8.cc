// Products of int8 by cuBLASLt and cuDNN, on the CPU. They refuse operands that the libraries do
// not take, and saturate sums as tensor cores may.
#include "tests/cpp/emulated_gpu/int8.h"

#include <algorithm>
#include <limits>

#include "cpp/ops/cuda/context.h"
#include "cpp/ops/cuda/matrix/gemm.h"

namespace mxlite::cuda {
namespace {

int32_t saturated(int64_t sum) {
  using Limits = std::numeric_limits<int32_t>;
  return static_cast<int32_t>(std::clamp<int64_t>(sum, Limits::min(), Limits::max()));
}

bool is_aligned(const void* address, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

char workspace[16];

void convolve(const ConvolutionProblem& p, const ConvolutionOperands& o) {
  const auto *const data = static_cast<const int8_t*>(o.data), *const weight =
                                                                   static_cast<const int8_t*>(
                                                                       o.weight);
  const int64_t channels = p.data[1], filters = p.output[1];
  for (int64_t n = 0; n < p.output[0]; ++n)
    for (int64_t y = 0; y < p.output[2]; ++y)
      for (int64_t x = 0; x < p.output[3]; ++x)
        for (int64_t f = 0; f < filters; ++f) {
          int64_t sum = 0;
          for (int64_t i = 0; i < p.weight[2]; ++i)
            for (int64_t j = 0; j < p.weight[3]; ++j) {
              const int64_t h = y * p.stride[0] - p.pad[0] + i * p.dilate[0];
              const int64_t w = x * p.stride[1] - p.pad[1] + j * p.dilate[1];
              if (h < 0 || h >= p.data[2] || w < 0 || w >= p.data[3]) continue;
              const int64_t pixel = ((n * p.data[2] + h) * p.data[3] + w) * channels;
              const int64_t row = ((f * p.weight[2] + i) * p.weight[3] + j) * channels;
              for (int64_t c = 0; c < channels; ++c) sum += data[pixel + c] * weight[row + c];
            }
          static_cast<int32_t*>(o.output)[((n * p.output[2] + y) * p.output[3] + x) * filters + f] =
              saturated(sum);
        }
}

}  // namespace

Workspace gemm_workspace(const KernelContext&) { return {workspace, sizeof(workspace)}; }

bool gemm_to_int32(KernelContext&, const Gemm& g, const GemmOperands& o) {
  MX_ASSERT(g.dtype == DType::kInt8 && g.trans_b && !g.trans_a && g.batch == 1);
  for (const int64_t multiple_of_4 : {g.k, g.n, g.lda, g.ldb, g.ldc})
    MX_ASSERT(multiple_of_4 > 0 && multiple_of_4 % 4 == 0);
  for (const void* address : {o.a, o.b, static_cast<const void*>(o.c)})
    MX_ASSERT(is_aligned(address, 4));
  if (g.n == 20) return false;  // acts as if cuBLASLt had no algorithm
  const auto *const a = static_cast<const int8_t*>(o.a), *const b = static_cast<const int8_t*>(o.b);
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      int64_t sum = 0;
      for (int64_t k = 0; k < g.k; ++k) sum += a[i * g.lda + k] * b[j * g.ldb + k];
      static_cast<int32_t*>(o.c)[i * g.ldc + j] = saturated(sum);
    }
  return true;
}

bool run_int8_convolution(const ConvolutionProblem& p, const ConvolutionOperands& o) {
  if (p.ndim != 4) return false;
  MX_ASSERT(p.channels_last && p.groups == 1 && !p.bias && !p.addend && !p.relu);
  MX_ASSERT(p.data[1] % 16 == 0 && p.output[1] % 4 == 0);
  MX_ASSERT(o.workspace == workspace && p.workspace_bytes <= int64_t{sizeof(workspace)});
  for (const void* address : {o.data, o.weight, o.output})
    MX_ASSERT(is_aligned(address, static_cast<uintptr_t>(p.alignment)));
  convolve(p, o);
  return true;
}

}  // namespace mxlite::cuda
