// Applies the update rules of cpp/ops/cpu/optimizer/rules.h to arrays on the device; a rule gets
// blocks of one element. One launch updates many weights.
#pragma once
#include <cstring>

#include "cpp/ops/cpu/optimizer/rules.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/optimizer/multi.h"

namespace mxlite::cuda {

using optimizer::Block;
using optimizer::kMaxStates;

struct DeviceArray {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
};
inline DeviceArray device_array(const TensorRef& t) { return {t.data, t.dtype}; }

// The arrays of one weight.
struct UpdateArrays {
  DeviceArray weight, grad, out;
  DeviceArray states[kMaxStates];
  DeviceArray weight32;  // for mixed precision: the weight that is updated
  int64_t n = 0;
};
inline UpdateArrays update_arrays(const TensorRef& weight, const TensorRef& grad,
                                  std::span<const TensorRef> states, const TensorRef* weight32,
                                  const TensorRef& out) {
  UpdateArrays a{device_array(weight), device_array(grad), device_array(out)};
  for (size_t i = 0; i < states.size(); ++i) a.states[i] = device_array(states[i]);
  if (weight32) a.weight32 = device_array(*weight32);
  a.n = out.size();
  return a;
}

// A weight before an update, and the results of the rule.
template <class C>
struct Updated {
  C weight, result;
};

template <class C, class Rule>
__device__ __forceinline__ Updated<C> update_element(const UpdateArrays& a, const Rule& rule,
                                                     int64_t i) {
  const DeviceArray& exact = a.weight32.data ? a.weight32 : a.weight;
  const C weight = load_as<C>(exact.data, exact.dtype, i);
  const C grad = load_as<C>(a.grad.data, a.grad.dtype, i);
  C states[kMaxStates], result;
#pragma unroll
  for (int k = 0; k < kMaxStates; ++k)
    states[k] = a.states[k].data ? load_as<C>(a.states[k].data, a.states[k].dtype, i) : C(0);
  Block<C> b{&weight, &grad, {&states[0], &states[1], &states[2]}, &result, 1};
  rule(b);
#pragma unroll
  for (int k = 0; k < kMaxStates; ++k)
    if (a.states[k].data) store_as<C>(a.states[k].data, a.states[k].dtype, i, states[k]);
  if (a.weight32.data) store_as<C>(a.weight32.data, a.weight32.dtype, i, result);
  store_as<C>(a.out.data, a.out.dtype, i, result);
  return {weight, result};
}

// Numbers that a launch reads on the device. If an array has no data, the rule contains the number.
struct DeviceNumbers {
  DeviceArray
      loaded[optimizer::kMaxLoaded];  // LoadedFields: one number for each weight of the call
  DeviceArray scale;  // one factor of all gradients; if it is 0 or not finite, weights do not
                      // change
};

// Sets the parameters of a weight that the call reads from arrays.
template <class P>
__device__ __forceinline__ P with_loaded(P p, const DeviceNumbers& numbers, int64_t weight) {
  optimizer::LoadedFields<P>::set(p, [&](int k) {
    return load_any<double>(numbers.loaded[k].data, numbers.loaded[k].dtype, weight);
  });
  return p;
}

// The number of weights that fit into a kernel's arguments; row y of the grid handles weight y.
constexpr int kMostWeights = 16;
template <class Rule>
struct UpdateBatch {
  UpdateArrays arrays[kMostWeights];
  alignas(Rule) std::byte rules[kMostWeights][sizeof(Rule)];  // a byte array, because rules have no
                                                              // default constructor
  int weight[kMostWeights];                                   // its position in the call
  DeviceNumbers numbers;
  int count = 0;

  __device__ __forceinline__ const Rule& rule(unsigned i) const {
    return *reinterpret_cast<const Rule*>(rules[i]);
  }
};

// Copies the weight itself, because the float32 weight may have more digits.
template <class C>
__device__ __forceinline__ void keep_weight(const UpdateArrays& a) {
  for (int64_t i = global_index(); i < a.n; i += grid_stride())
    store_as<C>(a.out.data, a.out.dtype, i, load_as<C>(a.weight.data, a.weight.dtype, i));
}

template <class C, class Rule>
__global__ void update_batch(const __grid_constant__ UpdateBatch<Rule> batch) {
  const UpdateArrays& a = batch.arrays[blockIdx.y];
  const DeviceNumbers& numbers = batch.numbers;
  auto rule = batch.rule(blockIdx.y).template make<C>(numbers, batch.weight[blockIdx.y]);
  if (numbers.scale.data) {
    const double scale = load_any<double>(numbers.scale.data, numbers.scale.dtype, 0);
    if (optimizer::skips(scale)) return keep_weight<C>(a);
    optimizer::scale_gradient<C>(rule, scale);
  }
  for (int64_t i = global_index(); i < a.n; i += grid_stride()) update_element<C>(a, rule, i);
}

// A rule whose parameters are all known on the host.
template <template <class> class R>
struct KnownRule {
  R<float> single;
  R<double> exact;
  template <class C>
  __device__ __forceinline__ const R<C>& make(const DeviceNumbers&, int64_t) const {
    if constexpr (std::is_same_v<C, float>)
      return single;
    else
      return exact;
  }
};

// A rule with parameters that are read on the device.
template <template <class> class R, class P>
struct LoadedRule {
  P p;
  template <class C>
  __device__ __forceinline__ R<C> make(const DeviceNumbers& numbers, int64_t weight) const {
    return R<C>(with_loaded(p, numbers, weight));
  }
};

// Launches kernel(batch, ...) with one row of the grid for each weight, and enough blocks in a row
// for the longest weight.
template <class Rule, class... Params, class... Args>
void launch_batch(KernelContext& ctx, void (*kernel)(UpdateBatch<Rule>, Params...),
                  const UpdateBatch<Rule>& batch, unsigned blocks, Args... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks, static_cast<unsigned>(batch.count));
  config.blockDim = dim3(kThreads);
  config.stream = stream(ctx);
  launch_kernel(config, kernel, batch, args...);
}

// Passes each full batch and the number of elements of its longest weight to `launch`; flush()
// passes the last batch.
template <class Rule, class Launch>
class Batches {
 public:
  Batches(const DeviceNumbers& numbers, Launch launch) : launch_(std::move(launch)) {
    static_assert(sizeof(batch_) <= 4096, "a kernel's arguments");
    batch_.numbers = numbers;
  }
  void add(const UpdateArrays& arrays, const Rule& rule, int weight = 0) {
    if (arrays.n == 0) return;
    batch_.arrays[batch_.count] = arrays;
    batch_.weight[batch_.count] = weight;
    std::memcpy(batch_.rules[batch_.count++], &rule, sizeof(Rule));
    longest_ = std::max(longest_, arrays.n);
    if (batch_.count == kMostWeights) flush();
  }
  bool empty() const { return batch_.count == 0; }
  void flush() {
    if (empty()) return;
    launch_(batch_, longest_);
    batch_.count = 0;
    longest_ = 0;
  }

 private:
  Launch launch_;
  int64_t longest_ = 0;
  UpdateBatch<Rule> batch_;
};
template <class Rule, class Launch>
Batches<Rule, Launch> batches_of(const DeviceNumbers& numbers, Launch launch) {
  return {numbers, std::move(launch)};
}

// Returns batches that update weights of a dtype in one launch each.
template <class Rule>
auto updates_of(KernelContext& ctx, DType dtype, const DeviceNumbers& numbers) {
  return batches_of<Rule>(numbers, [&ctx, dtype](const UpdateBatch<Rule>& batch, int64_t longest) {
    launch_batch(ctx,
                 dtype == DType::kFloat64 ? update_batch<double, Rule> : update_batch<float, Rule>,
                 batch, blocks_for(longest, ctx));
  });
}

template <class Rule>
void run_update(KernelContext& ctx, const UpdateArrays& arrays, DType dtype, const Rule& rule,
                const DeviceNumbers& numbers = {}) {
  auto updates = updates_of<Rule>(ctx, dtype, numbers);
  updates.add(arrays, rule);
  updates.flush();
}

template <class P>
DeviceNumbers device_numbers(const optimizer::ExtraArrays<P>& extra) {
  DeviceNumbers numbers;
  for (size_t k = 0; k < extra.loaded.size(); ++k)
    numbers.loaded[k] = device_array(extra.loaded[k]);
  if (extra.scale) numbers.scale = device_array(*extra.scale);
  return numbers;
}

}  // namespace mxlite::cuda
