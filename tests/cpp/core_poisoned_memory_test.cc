// Blocks of the CPU allocator under the address sanitizer: accesses behind an array, or to a cached
// block, are reported.
#include <gtest/gtest.h>

#include "cpp/core/allocator.h"
#include "cpp/core/cpu/poison.h"

namespace mxlite {
namespace {

#ifdef __SANITIZE_ADDRESS__
bool accessible(const void* data, size_t index) {
  return !__asan_address_is_poisoned(static_cast<const std::byte*>(data) + index);
}

TEST(PoisonedMemory, AnArrayEndsInsideItsBlock) {
  for (size_t bytes : {1, 8, 100, 127, 1000, 5000}) {
    const Block block = cpu_allocator().allocate(bytes);
    EXPECT_TRUE(accessible(block.data, 0) && accessible(block.data, bytes - 1)) << bytes;
    EXPECT_FALSE(accessible(block.data, bytes)) << bytes;
    cpu_allocator().free(block);
    EXPECT_FALSE(accessible(block.data, 0) || accessible(block.data, bytes - 1)) << bytes;
  }
}

TEST(PoisonedMemory, AReusedBlockIsAccessibleUpToItsNewEnd) {
  const Block small = cpu_allocator().allocate(70);
  cpu_allocator().free(small);
  const Block larger = cpu_allocator().allocate(120);
  ASSERT_EQ(larger.data, small.data);
  EXPECT_TRUE(accessible(larger.data, 119));
  EXPECT_FALSE(accessible(larger.data, 120));
  cpu_allocator().free(larger);
}
#else
TEST(PoisonedMemory, AnArrayEndsInsideItsBlock) {
  GTEST_SKIP() << "only the address sanitizer knows which memory is accessible";
}
#endif

}  // namespace
}  // namespace mxlite
