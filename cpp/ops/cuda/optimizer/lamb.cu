// LAMB over many weights, with two launches per batch of weights. The first updates both means,
// stores the step in scratch memory, and adds up the squares of weights and steps in each block.
// The blocks of the second launch join these sums to norms and apply the step.
#include "cpp/ops/cuda/optimizer/update.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using namespace optimizer;  // NOLINT: this file uses its rules and parameters

constexpr unsigned kMostParts = 512;  // blocks that share one weight
// Maximum number of elements whose steps scratch memory holds, unless one weight is longer.
constexpr int64_t kMostSteps = int64_t{1} << 24;

struct LambRule {
  LambUpdateParams p;
  bool loads;
  __device__ __forceinline__ LambUpdateParams params(const DeviceNumbers& numbers,
                                                     int64_t weight) const {
    return loads ? with_loaded(p, numbers, weight) : p;
  }
};
using LambBatch = UpdateBatch<LambRule>;

struct Squares {
  double weight, step;
};

// Returns the number of blocks that share a weight of n elements. The number depends on n alone, so
// the other weights of a batch do not change a weight's norms.
__host__ __device__ inline unsigned parts_of(int64_t n) {
  constexpr int64_t kEach = 8 * kThreads;
  const int64_t parts = (n + kEach - 1) / kEach;
  return parts < kMostParts ? static_cast<unsigned>(parts) : kMostParts;
}

// The third state of a weight is its step.
template <class C>
__global__ void update_means(const __grid_constant__ LambBatch batch, Squares* squares) {
  const UpdateArrays& all = batch.arrays[blockIdx.y];
  const unsigned parts = parts_of(all.n);
  if (blockIdx.x >= parts) return;
  const DeviceNumbers& numbers = batch.numbers;
  Lamb<C> rule(batch.rule(blockIdx.y).params(numbers, batch.weight[blockIdx.y]).first_part());
  if (numbers.scale.data) {
    const double scale = load_any<double>(numbers.scale.data, numbers.scale.dtype, 0);
    if (skips(scale)) return;
    scale_gradient<C>(rule, scale);
  }
  UpdateArrays a = all;
  if (a.weight32.data) a.weight = a.weight32;
  a.weight32.data = nullptr;
  a.out = a.states[2];
  a.states[2].data = nullptr;
  Squares sum{0, 0};
  for (int64_t i = global_index(); i < a.n; i += int64_t{parts} * blockDim.x) {
    const Updated<C> u = update_element<C>(a, rule, i);
    sum.weight += static_cast<double>(u.weight) * static_cast<double>(u.weight);
    sum.step += static_cast<double>(u.result) * static_cast<double>(u.result);
  }
  sum = {block_sum(sum.weight), block_sum(sum.step)};
  if (threadIdx.x == 0) squares[blockIdx.y * kMostParts + blockIdx.x] = sum;
}

template <class C>
__global__ void take_steps(const __grid_constant__ LambBatch batch, const Squares* squares) {
  UpdateArrays a = batch.arrays[blockIdx.y];
  if (int64_t{blockIdx.x} * blockDim.x >= a.n) return;
  const DeviceNumbers& numbers = batch.numbers;
  if (numbers.scale.data && skips(load_any<double>(numbers.scale.data, numbers.scale.dtype, 0)))
    return keep_weight<C>(a);
  Squares sum{0, 0};
  for (unsigned k = threadIdx.x; k < parts_of(a.n); k += blockDim.x) {
    sum.weight += squares[blockIdx.y * kMostParts + k].weight;
    sum.step += squares[blockIdx.y * kMostParts + k].step;
  }
  double r1 = sqrt(block_sum(sum.weight));
  const double r2 = sqrt(block_sum(sum.step));
  const LambStepParams p =
      batch.rule(blockIdx.y).params(numbers, batch.weight[blockIdx.y]).second_part();
  if (p.lower_bound > 0 && r1 < p.lower_bound) r1 = p.lower_bound;
  if (p.upper_bound > 0 && r1 > p.upper_bound) r1 = p.upper_bound;
  const LambStep<C> rule{static_cast<C>(r1 == 0 || r2 == 0 ? p.lr : p.lr * r1 / r2)};
  a.grad = a.states[2];
  for (DeviceArray& state : a.states) state.data = nullptr;
  for (int64_t i = global_index(); i < a.n; i += grid_stride()) update_element<C>(a, rule, i);
}

// `data` contains weight, grad, mean, variance and weight32 (if mixed) for each weight, then
// ExtraArrays.
template <class C, bool mixed>
void lamb(KernelContext& ctx, const Multi<LambUpdateParams>& p, Inputs in, Outputs out) {
  constexpr size_t kGroup = mixed ? 5 : 4;
  const ExtraArrays<LambUpdateParams> extra(in, kGroup, out.size());
  int64_t longest = 0, all = 0;
  for (const TensorRef& t : out) {
    longest = std::max(longest, t.size());
    all += t.size();
  }
  const int64_t room = std::min(all, std::max(longest, kMostSteps));
  ScratchPlan plan;
  const size_t squares_at = plan.add(kMostWeights * kMostParts * sizeof(Squares));
  const size_t steps_at = plan.add(static_cast<size_t>(room) * sizeof(C));
  void* const block = ctx.scratch(plan.bytes());
  auto* const squares = part<Squares>(block, squares_at);
  auto batches = batches_of<LambRule>(
      device_numbers(extra), [&](const LambBatch& batch, int64_t longest_of_batch) {
        launch_batch(ctx, update_means<C>, batch, parts_of(longest_of_batch), squares);
        launch_batch(ctx, take_steps<C>, batch, blocks_for(longest_of_batch, ctx),
                     static_cast<const Squares*>(squares));
      });
  int64_t used = 0;  // elements of the batch's steps
  for (size_t w = 0; w < out.size(); ++w) {
    const Inputs arrays = in.subspan(w * kGroup, kGroup);
    if (used + out[w].size() > room) batches.flush();
    if (batches.empty()) used = 0;
    UpdateArrays a = update_arrays(arrays[0], arrays[1], arrays.subspan(2, 2),
                                   mixed ? &arrays[4] : nullptr, out[w]);
    a.states[2] = {part<C>(block, steps_at) + used, DTypeOf<C>::value};
    used += a.n;
    batches.add(a, {p.each[w], extra.loads}, static_cast<int>(w));
  }
  batches.flush();
}

template <bool mixed>
void multi_lamb(KernelContext& ctx, const Multi<LambUpdateParams>& p, Inputs in, Outputs out) {
  if (in[0].dtype == DType::kFloat64)
    lamb<double, mixed>(ctx, p, in, out);
  else
    lamb<float, mixed>(ctx, p, in, out);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&multi_lamb<false>>("_multi_lamb_update");
  ops.cuda_kernel<&multi_lamb<true>>("_multi_mp_lamb_update");
});

}  // namespace mxlite::cuda
