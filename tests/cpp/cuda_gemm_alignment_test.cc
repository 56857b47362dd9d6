// Tests the alignments of operands that products pass to cuBLASLt.
#include <gtest/gtest.h>

#include "cpp/ops/cuda/matrix/gemm_alignment.h"

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

}  // namespace
}  // namespace mxlite::cuda
