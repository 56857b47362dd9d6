// Matrix products of 16-bit floats whose rows do not begin at multiples of 16 bytes, such as rows
// of length 50257, the size of a vocabulary. Tensor cores cannot load such rows, so the products
// run on copies whose rows begin at multiples of 128 bytes.
#pragma once
#include "cpp/ops/cuda/matrix/gemm.h"

namespace mxlite::cuda {

// Row lengths, in elements, of the copies of A, B and C; 0 if a matrix needs no copy.
struct GemmPitches {
  int64_t a = 0, b = 0, c = 0;
};

inline GemmPitches padded_pitches(const Gemm& g) {
  constexpr int64_t kUnit = 8, kPitch = 64;  // in elements
  // A copy moves each number once; a product that is worth copies uses it kLeast times or more.
  constexpr int64_t kLeast = 256;
  if (!is_half(g.dtype) || g.batch != 1 || g.beta != 0) return {};
  if (g.m < kLeast || g.n < kLeast || g.k < kLeast) return {};
  const auto pitch = [](int64_t leading) {
    return leading % kUnit == 0 ? 0 : (leading + kPitch - 1) / kPitch * kPitch;
  };
  return {pitch(g.lda), pitch(g.ldb), pitch(g.ldc)};
}

// Computes one product as gemm does, on copies of the operands in the call's scratch memory. The
// operands themselves must not be in the scratch memory.
void padded_gemm(KernelContext& ctx, const Gemm& g, const GemmOperands& operands);

}  // namespace mxlite::cuda
