// Consecutive pointwise operators as a short program that one kernel interprets: a thread processes
// a few adjacent elements in all steps, so that intermediate values stay in registers. Values are
// computed in float and rounded to their dtype after each step, like separate operators. CUDA uses
// such programs, because launching a kernel takes longer than its work; on the CPU, the operators'
// own kernels run block by block (cpu/pointwise/chain.cc).
#pragma once
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>

#include "cpp/core/half.h"
#include "cpp/ops/planned_kernel.h"
#include "cpp/ops/pointwise/activation_functors.h"

namespace mxlite::pointwise {

// Functions that a step can compute. Excludes functions that networks rarely use and that need many
// registers (gamma, the inverse functions).
using ChainBinary =
    std::tuple<Add, Sub, Mul, Div, Mod, Power, Maximum, Minimum, Equal, NotEqual, Greater,
               GreaterEqual, Lesser, LesserEqual, LogicalAnd, LogicalOr, LogicalXor, ReluBackward,
               SigmoidBackward, TanhBackward, ReluSlope, SoftreluBackward, SoftsignBackward>;
using ChainUnary =
    std::tuple<Identity, Negative, Abs, Sign, Square, Relu, LogicalNot, Round, Rint, Ceil, Floor,
               Trunc, IsNan, IsInf, IsFinite, Sqrt, Rsqrt, Exp, Expm1, Log, Log1p, Tanh, Reciprocal,
               Sigmoid, Softsign, Softrelu, Erf, Clip, SmoothL1, HardSigmoid>;
inline constexpr int kChainBinaries = std::tuple_size_v<ChainBinary>;
inline constexpr int kChainFunctions = kChainBinaries + std::tuple_size_v<ChainUnary>;

struct ChainOperand {
  enum class Kind : uint8_t {
    kNone,
    kLast,      // result of the previous step
    kKept,      // kept result number `index`
    kArray,     // elements of input `index`
    kElement,   // the single element of input `index`
    kConstant,  // p[0]
  };
  Kind kind = Kind::kNone;
  uint8_t index = 0;
};

struct ChainStep {
  uint8_t function = 0;  // index in the list of ChainBinary, followed by ChainUnary
  ChainOperand a, b;
  int8_t keep = -1;   // slot in which the result is kept for a later step, or -1
  int8_t store = -1;  // index of the output that stores the result, or -1
  DType dtype = DType::kFloat32;
  float p[2] = {0, 0};
};

// A program, together with its pointers, is small enough to be a kernel argument.
struct ChainProgram {
  static constexpr int kMostSteps = 32, kMostInputs = 48, kMostOutputs = 32, kMostKept = 6;
  int64_t count = 0;  // elements
  int32_t num_steps = 0, num_inputs = 0, num_outputs = 0, num_kept = 0;
  DType inputs[kMostInputs] = {}, outputs[kMostOutputs] = {};
  ChainStep steps[kMostSteps] = {};
};

// Returns nullopt if a step has no function in these lists, a value is not float32, float16 or
// bfloat16, or there are too many values.
std::optional<ChainProgram> compile_chain(const PointwiseChain& chain);

// Calls fn(integral_constant) for the number n in [kFirst, kFirst + kCount).
template <int kFirst, int kCount, class Fn>
MX_HD void with_number(int n, Fn&& fn) {
  if constexpr (kCount == 1) {
    fn(std::integral_constant<int, kFirst>{});
  } else {
    constexpr int kHalf = kCount / 2;
    if (n < kFirst + kHalf)
      with_number<kFirst, kHalf>(n, fn);
    else
      with_number<kFirst + kHalf, kCount - kHalf>(n, fn);
  }
}

MX_HD float rounded(DType dtype, float v) {
  if (dtype == DType::kFloat16) return static_cast<float>(float16(v));
  if (dtype == DType::kBFloat16) return static_cast<float>(bfloat16(v));
  return v;
}

// a = function(a, b)
template <int W>
MX_HD void apply_step(const ChainStep& step, float (&a)[W], const float (&b)[W]) {
  with_number<0, kChainFunctions>(step.function, [&](auto number) {
    constexpr int kNumber = decltype(number)::value;
    const float p[2] = {step.p[0], step.p[1]};
    for (int k = 0; k < W; ++k) {
      if constexpr (kNumber < kChainBinaries)
        a[k] = std::tuple_element_t<kNumber, ChainBinary>::apply(a[k], b[k]);
      else
        a[k] = std::tuple_element_t<kNumber - kChainBinaries, ChainUnary>::apply(a[k], p);
    }
  });
}

// Runs all steps on the elements [at, at + W). `Memory` moves W floats at a time:
//   load(input, dtype, at, out)   element(input, dtype)   store(output, dtype, at, in)
//   keep(slot, in)   kept(slot, out)
template <int W, class Memory>
MX_HD void run_chain(const ChainProgram& program, Memory& memory, int64_t at) {
  using Kind = ChainOperand::Kind;
  float last[W] = {};
  const auto fetch = [&](const ChainStep& step, ChainOperand o, float(&out)[W]) {
    if (o.kind == Kind::kArray) return memory.load(o.index, program.inputs[o.index], at, out);
    if (o.kind == Kind::kKept) return memory.kept(o.index, out);
    const float one =
        o.kind == Kind::kElement ? memory.element(o.index, program.inputs[o.index]) : step.p[0];
    for (int k = 0; k < W; ++k) out[k] = o.kind == Kind::kLast ? last[k] : one;
  };
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
  for (int s = 0; s < program.num_steps; ++s) {
    const ChainStep& step = program.steps[s];
    float b[W] = {};
    if (step.b.kind != Kind::kNone)
      fetch(step, step.b, b);  // b is fetched first, because it may
                               // be the previous result
    if (step.a.kind != Kind::kLast) {
      float a[W];
      fetch(step, step.a, a);
      for (int k = 0; k < W; ++k) last[k] = a[k];
    }
    apply_step<W>(step, last, b);
    if (step.dtype != DType::kFloat32)
      for (int k = 0; k < W; ++k) last[k] = rounded(step.dtype, last[k]);
    if (step.keep >= 0) memory.keep(step.keep, last);
    if (step.store >= 0) memory.store(step.store, step.dtype, at, last);
  }
}

}  // namespace mxlite::pointwise
