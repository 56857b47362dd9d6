// The kernels of the CUDA backend, compiled for the CPU. Kernels that need CUB are missing: those
// operators get the CPU's kernels, all others none, so that a missing kernel shows.
#include "tests/cpp/fake_gpu/kernels.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cpp/ops/cuda/accumulate_rows.cuh"
#include "cpp/ops/cuda/nn/convolution_plan.h"
#include "cpp/ops/registration.h"

namespace mxlite {

namespace cuda {

// cuDNN has no plan for anything here, so every convolution runs in the loops of the fallback.
bool run_planned_convolution(KernelContext&, const ConvolutionProblem&,
                             const ConvolutionOperands&) {
  return false;
}

int64_t* accumulation_rows(KernelContext& ctx, int64_t count) {
  return static_cast<int64_t*>(ctx.scratch(static_cast<size_t>(count) * sizeof(int64_t)));
}
void accumulate_rows(KernelContext&, const RowAccumulation& a, const void* src, void* dst) {
  dispatch_dtype(a.dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    for (int64_t o = 0; o < a.outer; ++o)
      for (int64_t row = 0; row < a.num_rows; ++row)
        for (int64_t k = 0; k < a.inner; ++k) {
          Acc sum = 0;
          for (int64_t i = 0; i < a.count; ++i)
            if (a.rows[i] == row)
              sum += static_cast<Acc>(static_cast<const T*>(src)[(o * a.count + i) * a.inner + k]);
          static_cast<T*>(dst)[(o * a.num_rows + row) * a.inner + k] = static_cast<T>(sum);
        }
  });
}

RowOrder order_rows(KernelContext& ctx, const int64_t* rows, int64_t count, int64_t num_rows,
                    size_t extra_bytes, void** extra) {
  const size_t aligned = (extra_bytes + 255) / 256 * 256;
  auto* const block = static_cast<char*>(
      ctx.scratch(aligned + 2 * static_cast<size_t>(count) * sizeof(int64_t) + 1));
  if (extra) *extra = block;
  auto* const row = reinterpret_cast<int64_t*>(block + aligned);
  int64_t* const position = row + count;
  const auto kept = [&](int64_t i) {
    return num_rows == kAnyRow || (rows[i] >= 0 && rows[i] < num_rows) ? rows[i] : num_rows;
  };
  std::iota(position, position + count, int64_t{0});
  std::stable_sort(position, position + count,
                   [&](int64_t a, int64_t b) { return kept(a) < kept(b); });
  for (int64_t i = 0; i < count; ++i) row[i] = kept(position[i]);
  return {count, row, position};
}

}  // namespace cuda

namespace {
PlanChainFn own_planner = nullptr;
}

void register_own_kernels(OpRegistry& ops) {
  Registration::run_all(ops);
  own_planner = find_chain_planner(DeviceType::kCUDA);
}

// Their kernels need CUB. All others must have one of their own.
bool borrows_kernels(const std::string& op) {
  return op == "sort" || op == "argsort" || op == "topk" || op == "cumsum" ||
         op == "_cumsum_reverse";
}

Plan plan_own_chain(PointwiseChain chain) { return own_planner(std::move(chain)); }

}  // namespace mxlite
