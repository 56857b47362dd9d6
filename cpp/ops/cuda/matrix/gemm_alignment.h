// Alignment in bytes of a product's operands, on which cuBLASLt's choice of an algorithm depends.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpp/ops/cuda/matrix/gemm.h"

namespace mxlite::cuda {

struct GemmAlignment {
  uint32_t a = 0, b = 0, c = 0;
};

// Returns the largest power of two, up to 256, that divides the address.
inline uint32_t alignment_of(const void* address) {
  constexpr uintptr_t kMost = 256;
  const auto bits = reinterpret_cast<uintptr_t>(address) | kMost;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

// The epilogue loads bias and addend while it stores C, and cuBLASLt has no alignment parameter for
// a bias. So the alignment of C is the smallest alignment of the three arrays.
inline GemmAlignment alignment_of(const GemmOperands& o) {
  uint32_t c = alignment_of(o.c);
  for (const void* address : {o.addend, o.bias})
    if (address) c = std::min(c, alignment_of(address));
  return {alignment_of(o.a), alignment_of(o.b), c};
}

}  // namespace mxlite::cuda
