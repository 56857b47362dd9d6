// Updates many weights in few launches.
#include "cpp/ops/cuda/optimizer/update.cuh"
#include "cpp/ops/optimizer/multi.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using namespace optimizer;  // NOLINT: this file uses its rules and parameters

// `data` contains weight, grad, states and weight32 (if mixed) for each weight, then ExtraArrays.
template <template <class> class R, class P, size_t kStates, bool mixed>
void multi(KernelContext& ctx, const Multi<P>& p, Inputs in, Outputs out) {
  constexpr size_t kGroup = 2 + kStates + (mixed ? 1 : 0);
  const ExtraArrays<P> extra(in, kGroup, out.size());
  const auto run = [&]<class Rule>(auto make_rule, std::type_identity<Rule>) {
    auto updater = updates_of<Rule>(ctx, in[0].dtype, device_numbers(extra));
    for (size_t w = 0; w < out.size(); ++w) {
      const Inputs arrays = in.subspan(w * kGroup, kGroup);
      updater.add(update_arrays(arrays[0], arrays[1], arrays.subspan(2, kStates),
                                mixed ? &arrays[kGroup - 1] : nullptr, out[w]),
                  make_rule(p.each[w]), static_cast<int>(w));
    }
    updater.flush();
  };
  if (!extra.loads)
    run(
        [](const P& one) {
          return KnownRule<R>{R<float>(one), R<double>(one)};
        },
        std::type_identity<KnownRule<R>>());
  else
    run([](const P& one) { return LoadedRule<R, P>{one}; }, std::type_identity<LoadedRule<R, P>>());
}

// Sums of squares of many arrays. Parts have a fixed size and are added in order, so that every run
// gives the same sums.
constexpr int kMostArrays = 64;
constexpr unsigned kParts = 64;
struct ArrayList {
  DeviceArray arrays[kMostArrays];
  int64_t size[kMostArrays];
  int count = 0;
};

__global__ void square_parts(const __grid_constant__ ArrayList list, double* parts) {
  const DeviceArray& a = list.arrays[blockIdx.y];
  double sum = 0;
  for (int64_t i = global_index(); i < list.size[blockIdx.y]; i += grid_stride()) {
    const double v = load_any<double>(a.data, a.dtype, i);
    sum += v * v;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.y * kParts + blockIdx.x] = sum;
}
__global__ void join_squares(int count, const double* parts, float* out) {
  for (int64_t i = global_index(); i < count; i += grid_stride()) {
    double sum = 0;
    for (unsigned k = 0; k < kParts; ++k) sum += parts[i * kParts + k];
    out[i] = static_cast<float>(sum);
  }
}
void sums_of_squares(KernelContext& ctx, const ArrayList& list, double* parts, float* out) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kParts, static_cast<unsigned>(list.count));
  config.blockDim = dim3(kThreads);
  config.stream = stream(ctx);
  launch_kernel(config, square_parts, list, parts);
  launch_items(ctx, join_squares, list.count, list.count, parts, out);
}

void multi_sum_sq(KernelContext& ctx, const NumArraysParams&, Inputs in, Outputs out) {
  auto* parts = static_cast<double*>(ctx.scratch(kMostArrays * kParts * sizeof(double)));
  for (size_t first = 0; first < in.size(); first += kMostArrays) {
    ArrayList list;
    for (size_t i = first; i < in.size() && list.count < kMostArrays; ++i) {
      list.arrays[list.count] = device_array(in[i]);
      list.size[list.count++] = in[i].size();
    }
    sums_of_squares(ctx, list, parts, out[0].as<float>() + first);
  }
}

__global__ void lars_rates(int64_t n, LarsParams p, DeviceArray lrs, DeviceArray weights,
                           DeviceArray grads, DeviceArray wds, float* rates) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const double lr = load_any<double>(lrs.data, lrs.dtype, i);
    const double weight = sqrt(load_any<double>(weights.data, weights.dtype, i));
    const double grad = sqrt(load_any<double>(grads.data, grads.dtype, i));
    const double wd = load_any<double>(wds.data, wds.dtype, i);
    const double divisor = grad * p.rescale_grad + wd * weight + p.eps;
    rates[i] = static_cast<float>(weight > 0 && grad > 0 ? lr * p.eta * weight / divisor : lr);
  }
}
void multi_lars(KernelContext& ctx, const LarsParams& p, Inputs in, Outputs out) {
  launch_items(ctx, lars_rates, out[0].size(), out[0].size(), p, device_array(in[0]),
               device_array(in[1]), device_array(in[2]), device_array(in[3]), out[0].as<float>());
}

void reset_arrays(KernelContext& ctx, const NumArraysParams&, Inputs in, Outputs) {
  for (const TensorRef& t : in) zero_bytes(ctx, t.data, t.bytes());
}

// x - x is 0 only for finite x. All threads that write store the same value, so atomics are not
// needed.
__global__ void clear_if_infinite(const __grid_constant__ ArrayList list, float* all_finite) {
  const DeviceArray& a = list.arrays[blockIdx.y];
  bool bad = false;
  for (int64_t i = global_index(); i < list.size[blockIdx.y]; i += grid_stride()) {
    const double v = load_any<double>(a.data, a.dtype, i);
    bad |= !(v - v == 0);
  }
  if (bad) *all_finite = 0.0f;
}
__global__ void set_one(float* value) { *value = 1.0f; }

template <class P>
void all_finite(KernelContext& ctx, const P&, Inputs in, Outputs out) {
  launch(ctx, set_one, 1, 1, out[0].as<float>());
  for (size_t i = 0; i < in.size();) {
    ArrayList list;
    int64_t longest = 0;
    for (; i < in.size() && list.count < kMostArrays; ++i) {
      if (!is_floating(in[i].dtype) || in[i].size() == 0) continue;
      list.arrays[list.count] = device_array(in[i]);
      list.size[list.count++] = in[i].size();
      longest = std::max(longest, in[i].size());
    }
    if (list.count == 0) continue;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks_for(longest, ctx), static_cast<unsigned>(list.count));
    config.blockDim = dim3(kThreads);
    config.stream = stream(ctx);
    launch_kernel(config, clear_if_infinite, list, out[0].as<float>());
  }
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  for_each_update([&]<class P, template <class> class R, size_t kStates, bool kPreloaded>(
                      const Update<P, R, kStates, kPreloaded>& u) {
    for (const char* form : {"", "preloaded"}) {
      if (*form && !kPreloaded) continue;
      ops.cuda_kernel<&multi<R, P, kStates, false>>(form + multi_name(u.name, false));
      ops.cuda_kernel<&multi<R, P, kStates, true>>(form + multi_name(u.name, true));
    }
  });
  ops.cuda_kernel<&multi_sum_sq>("multi_sum_sq");
  ops.cuda_kernel<&multi_lars>("multi_lars");
  ops.cuda_kernel<&reset_arrays>("reset_arrays");
  ops.cuda_kernel<&all_finite<FiniteParams>>("all_finite");
  ops.cuda_kernel<&all_finite<MultiFiniteParams>>("multi_all_finite");
});

}  // namespace mxlite::cuda
