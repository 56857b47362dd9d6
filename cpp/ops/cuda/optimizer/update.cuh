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

template <class C, class Rule>
__device__ __forceinline__ void update_element(const UpdateArrays& a, const Rule& rule, int64_t i) {
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

template <class C, class Rule>
__global__ void update_batch(const __grid_constant__ UpdateBatch<Rule> batch) {
  const UpdateArrays& a = batch.arrays[blockIdx.y];
  const DeviceNumbers& numbers = batch.numbers;
  auto rule = batch.rule(blockIdx.y).template make<C>(numbers, batch.weight[blockIdx.y]);
  if (numbers.scale.data) {
    const double scale = load_any<double>(numbers.scale.data, numbers.scale.dtype, 0);
    if (optimizer::skips(scale)) {  // copies the weight itself instead of converting the float32
                                    // one
      for (int64_t i = global_index(); i < a.n; i += grid_stride())
        store_as<C>(a.out.data, a.out.dtype, i, load_as<C>(a.weight.data, a.weight.dtype, i));
      return;
    }
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

// A rule some of whose parameters are read on the device.
template <template <class> class R, class P>
struct LoadedRule {
  P p;
  template <class C>
  __device__ __forceinline__ R<C> make(const DeviceNumbers& numbers, int64_t weight) const {
    return R<C>(with_loaded(p, numbers, weight));
  }
};

// Launches each full batch; flush() launches the last one.
template <class Rule>
class Updater {
 public:
  Updater(KernelContext& ctx, DType dtype, const DeviceNumbers& numbers = {})
      : ctx_(ctx), wide_(dtype == DType::kFloat64) {
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
  void flush() {
    if (batch_.count == 0) return;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks_for(longest_, ctx_), static_cast<unsigned>(batch_.count));
    config.blockDim = dim3(kThreads);
    config.stream = stream(ctx_);
    if (wide_)
      launch_kernel(config, update_batch<double, Rule>, batch_);
    else
      launch_kernel(config, update_batch<float, Rule>, batch_);
    batch_.count = 0;
    longest_ = 0;
  }

 private:
  KernelContext& ctx_;
  bool wide_;
  int64_t longest_ = 0;
  UpdateBatch<Rule> batch_;
};

template <class Rule>
void run_update(KernelContext& ctx, const UpdateArrays& arrays, DType dtype, const Rule& rule,
                const DeviceNumbers& numbers = {}, int weight = 0) {
  Updater<Rule> updater(ctx, dtype, numbers);
  updater.add(arrays, rule, weight);
  updater.flush();
}

}  // namespace mxlite::cuda
