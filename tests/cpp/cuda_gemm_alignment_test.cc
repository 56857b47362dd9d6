// Tests the alignments of operands that products pass to cuBLASLt, and which operands are padded.
#include <gtest/gtest.h>

#include <array>

#include "cpp/ops/cuda/matrix/gemm_alignment.h"
#include "cpp/ops/cuda/matrix/padded_gemm.h"

namespace mxlite::cuda {
namespace {

alignas(256) float memory[256];

TEST(GemmAlignmentTest, IsTheLargestPowerOfTwoUpTo256) {
  EXPECT_EQ(alignment_of(memory), 256u);
  EXPECT_EQ(alignment_of(memory + 1), 4u);
  EXPECT_EQ(alignment_of(memory + 4), 16u);
  EXPECT_EQ(alignment_of(reinterpret_cast<const char*>(memory) + 2), 2u);
}

TEST(GemmAlignmentTest, EachOperandCounts) {
  const GemmAlignment all = alignment_of({.a = memory + 2, .b = memory + 4, .c = memory + 8});
  EXPECT_EQ(all.a, 8u);
  EXPECT_EQ(all.b, 16u);
  EXPECT_EQ(all.c, 32u);
}

TEST(GemmAlignmentTest, AShiftedBiasOrAddendLowersTheOutputs) {
  EXPECT_EQ(alignment_of({.a = memory, .b = memory, .c = memory, .bias = memory + 1}).c, 4u);
  EXPECT_EQ(alignment_of({.a = memory, .b = memory, .c = memory, .addend = memory + 2}).c, 8u);
  EXPECT_EQ(alignment_of({.a = memory, .b = memory, .c = memory, .bias = memory}).c, 256u);
}

// These are the product of GPT-2's vocabulary and the products of its gradients.
TEST(PaddedGemmTest, OnlyRowsThatAreNotWholeVectorsArePadded) {
  const auto pitches = [](Gemm g) {
    const GemmPitches p = padded_pitches(g);
    return std::array{p.a, p.b, p.c};
  };
  using Pitches = std::array<int64_t, 3>;
  const Gemm forward{.dtype = DType::kBFloat16,
                     .trans_b = true,
                     .m = 8192,
                     .n = 50257,
                     .k = 768,
                     .lda = 768,
                     .ldb = 768,
                     .ldc = 50257};
  EXPECT_EQ(pitches(forward), (Pitches{0, 0, 50304}));
  EXPECT_EQ(pitches({.dtype = DType::kFloat16,
                     .m = 8192,
                     .n = 768,
                     .k = 50257,
                     .lda = 50257,
                     .ldb = 768,
                     .ldc = 768}),
            (Pitches{50304, 0, 0}));
  EXPECT_EQ(pitches({.dtype = DType::kFloat16,
                     .trans_a = true,
                     .m = 50257,
                     .n = 768,
                     .k = 8192,
                     .lda = 50257,
                     .ldb = 768,
                     .ldc = 768}),
            (Pitches{50304, 0, 0}));
  Gemm other = forward;
  other.dtype = DType::kFloat32;
  EXPECT_EQ(pitches(other), (Pitches{0, 0, 0}));
  other = forward;
  other.m = 128;  // a copy would take as long as the product
  EXPECT_EQ(pitches(other), (Pitches{0, 0, 0}));
  other = forward;
  other.n = other.ldc = 30520;
  EXPECT_EQ(pitches(other), (Pitches{0, 0, 0}));
}

}  // namespace
}  // namespace mxlite::cuda
