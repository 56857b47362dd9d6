// One thread per element. Integer products serve indices and counts, so speed does not matter.
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/matrix/integer_gemm.h"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {
namespace {

// Integers are exact modulo 2^64. So a product is exact modulo 2^bits in a narrower type, too.
__device__ __forceinline__ uint64_t load_bits(const void* data, DType dtype, int64_t i) {
  return dtype == DType::kUInt64 ? static_cast<const uint64_t*>(data)[i]
                                 : static_cast<uint64_t>(load_as<int64_t>(data, dtype, i));
}

__global__ void multiply(const __grid_constant__ Gemm g, GemmOperands o) {
  const int64_t size = g.m * g.n;
  for (int64_t i = global_index(); i < g.batch * size; i += grid_stride()) {
    const int64_t batch = i / size, row = i % size / g.n, column = i % g.n;
    uint64_t sum = 0;
    for (int64_t k = 0; k < g.k; ++k) {
      const int64_t a = batch * g.stride_a + (g.trans_a ? k * g.lda + row : row * g.lda + k);
      const int64_t b = batch * g.stride_b + (g.trans_b ? column * g.ldb + k : k * g.ldb + column);
      sum += load_bits(o.a, g.dtype, a) * load_bits(o.b, g.dtype, b);
    }
    const int64_t at = batch * g.stride_c + row * g.ldc + column;
    uint64_t result = static_cast<uint64_t>(static_cast<int64_t>(g.alpha)) * sum;
    if (g.beta != 0)
      result += static_cast<uint64_t>(static_cast<int64_t>(g.beta)) * load_bits(o.c, g.dtype, at);
    if (g.bias) result += load_bits(o.bias, g.dtype, column);
    if (g.relu && static_cast<int64_t>(result) < 0 && g.dtype != DType::kUInt64) result = 0;
    if (g.dtype == DType::kUInt64)
      static_cast<uint64_t*>(o.c)[at] = result;
    else
      store_as<int64_t>(o.c, g.dtype, at, static_cast<int64_t>(result));
  }
}

}  // namespace

void integer_gemm(KernelContext& ctx, const Gemm& g, const GemmOperands& operands) {
  launch_items(ctx, multiply, g.batch * g.m * g.n, g, operands);
}

}  // namespace mxlite::cuda
