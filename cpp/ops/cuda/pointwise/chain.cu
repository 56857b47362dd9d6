// Chains of pointwise operators inside an executable. A kernel is generated for each chain
// (cpp/ops/rtc); without NVRTC, one kernel interprets the program that
// cpp/ops/pointwise/chain_program.h describes.
#include "cpp/ops/cuda/channels_last.h"
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/pointwise/chain_program.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/rtc/generated_chain.h"

namespace mxlite::cuda {
namespace {

using pointwise::ChainProgram;

constexpr int kWidth = kPack<float>;

struct Pointers {
  const void* in[ChainProgram::kMostInputs];
  void* out[ChainProgram::kMostOutputs];
  bool packed;  // whether all arrays are aligned
};
static_assert(sizeof(ChainProgram) + sizeof(Pointers) <= 4096, "kernel arguments");

// Kept values are in shared memory; the values of neighboring threads are adjacent.
struct ThreadMemory {
  const Pointers& pointers;
  int64_t count;
  float* slots;

  __device__ __forceinline__ bool whole(int64_t at) const {
    return pointers.packed && at + kWidth <= count;
  }
  __device__ __forceinline__ void load(int input, DType dtype, int64_t at,
                                       float (&out)[kWidth]) const {
    const void* data = pointers.in[input];
    for_dtype_of<float>(dtype, [&]<class T>(T) {
      if (whole(at)) return load_pack<T>(data, at, out);
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        out[k] = at + k < count ? convert<float>(static_cast<const T*>(data)[at + k]) : 0.0f;
    });
  }
  __device__ __forceinline__ float element(int input, DType dtype) const {
    return load_as<float>(pointers.in[input], dtype, 0);
  }
  __device__ __forceinline__ void store(int output, DType dtype, int64_t at,
                                        const float (&in)[kWidth]) const {
    void* data = pointers.out[output];
    for_dtype_of<float>(dtype, [&]<class T>(T) {
      if (whole(at)) return store_pack<T>(data, at, in);
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        if (at + k < count) static_cast<T*>(data)[at + k] = convert<T>(in[k]);
    });
  }
  __device__ __forceinline__ float& slot(int index, int k) const {
    return slots[(index * kWidth + k) * kThreads + threadIdx.x];
  }
  __device__ __forceinline__ void keep(int index, const float (&in)[kWidth]) const {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) slot(index, k) = in[k];
  }
  __device__ __forceinline__ void kept(int index, float (&out)[kWidth]) const {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) out[k] = slot(index, k);
  }
};

__global__ void __launch_bounds__(kThreads)
    run_program(const __grid_constant__ ChainProgram program,
                const __grid_constant__ Pointers pointers) {
  MX_DYNAMIC_SHARED(float, slots);
  const ThreadMemory memory{pointers, program.count, slots};
  for (int64_t at = global_index() * kWidth; at < program.count; at += grid_stride() * kWidth)
    pointwise::run_chain<kWidth>(program, memory, at);
}

void launch_chain(KernelContext& ctx, const ChainProgram& program, std::span<void* const> in,
                  std::span<void* const> out) {
  Pointers pointers{};
  pointers.packed = true;
  for (int i = 0; i < program.num_inputs; ++i) {
    pointers.in[i] = in[static_cast<size_t>(i)];
    pointers.packed &= is_aligned(pointers.in[i]);
  }
  for (int i = 0; i < program.num_outputs; ++i) {
    pointers.out[i] = out[static_cast<size_t>(i)];
    pointers.packed &= is_aligned(pointers.out[i]);
  }
  const size_t shared = static_cast<size_t>(program.num_kept) * kWidth * kThreads * sizeof(float);
  const unsigned blocks = blocks_for((program.count + kWidth - 1) / kWidth, ctx);
  launch_shared(ctx, run_program, blocks, kThreads, shared, program, pointers);
}

Plan plan_chain(PointwiseChain chain) {
  Plan plan = rtc::plan_generated_chain(chain);
  if (plan.run) return plan;
  const auto program = pointwise::compile_chain(chain);
  if (!program) return plan;
  for (size_t v = 0; v < chain.num_inputs; ++v)
    plan.inputs.push_back({nullptr, chain.values[v].bytes()});
  for (int v : chain.outputs)
    plan.outputs.push_back({nullptr, chain.values[static_cast<size_t>(v)].bytes()});
  plan.run = [program = *program](KernelContext& ctx, std::span<void* const> in,
                                  std::span<void* const> out,
                                  void*) { launch_chain(ctx, program, in, out); };
  return plan;
}

}  // namespace

static const Registration registration(Stage::kPlans, [](OpRegistry&) {
  set_chain_planner(DeviceType::kCUDA, {.plan = plan_chain, .takes_rows = &rtc::generates_chains});
});

}  // namespace mxlite::cuda
