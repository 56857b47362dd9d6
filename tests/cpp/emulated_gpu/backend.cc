// Libraries and context for kernels of the CUDA backend, on the CPU.
#include <array>
#include <atomic>
#include <string>

#include "cpp/base/error.h"
#include "cpp/ops/cuda/context.h"
#include "cpp/ops/cuda/matrix/gemm.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::cuda {

cudaStream_t stream(const KernelContext&) { return nullptr; }
int multiprocessors(const KernelContext&) { return 1; }
// Kernels run in the calling thread.
unsigned* arrival_counters(const KernelContext&, int64_t count) {
  thread_local std::array<unsigned, 64> counters{};
  return count <= static_cast<int64_t>(counters.size()) ? counters.data() : nullptr;
}

namespace {

template <class T>
void multiply(const Gemm& g, const GemmOperands& o) {
  using Acc = ComputeType<T>;
  for (int64_t b = 0; b < g.batch; ++b) {
    const T* const left = static_cast<const T*>(o.a) + b * g.stride_a;
    const T* const right = static_cast<const T*>(o.b) + b * g.stride_b;
    T* const c = static_cast<T*>(o.c) + b * g.stride_c;
    const T* const added = o.addend ? static_cast<const T*>(o.addend) + b * g.stride_c : c;
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.n; ++j) {
        Acc sum = 0;
        for (int64_t k = 0; k < g.k; ++k)
          sum += static_cast<Acc>(left[g.trans_a ? k * g.lda + i : i * g.lda + k]) *
                 static_cast<Acc>(right[g.trans_b ? j * g.ldb + k : k * g.ldb + j]);
        sum = static_cast<Acc>(g.alpha) * sum;
        if (g.beta != 0) sum += static_cast<Acc>(g.beta) * static_cast<Acc>(added[i * g.ldc + j]);
        if (g.bias) sum += static_cast<Acc>(static_cast<const T*>(o.bias)[j]);
        if (g.relu && sum < Acc(0)) sum = 0;
        c[i * g.ldc + j] = static_cast<T>(sum);
      }
  }
}

}  // namespace

std::atomic<int64_t> products{0};

void gemm(KernelContext&, const Gemm& g, const GemmOperands& o) {
  ++products;
  dispatch_dtype(g.dtype, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, bool>) multiply<T>(g, o);
  });
}

}  // namespace mxlite::cuda

// Returns the number of matrix products since the last call, for tests in Python.
extern "C" [[gnu::visibility("default")]] int64_t mxlite_emulated_products() {
  return mxlite::cuda::products.exchange(0);
}
