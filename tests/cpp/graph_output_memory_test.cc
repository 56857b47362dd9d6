// Tests the memory of outputs and of values that are saved for backward.
#include <gtest/gtest.h>

#include "cpp/graph/run/output_memory.h"

namespace mxlite::graph {
namespace {

TEST(OutputMemory, IsTakenAgainWhenTheCallerHasDroppedIt) {
  OutputMemory memory;
  const TensorSpec spec{{100}, DType::kFloat32};
  const void* first;
  {
    const NDArrayRef a = memory.take(0, spec, {});
    first = a->data();
    EXPECT_NE(memory.take(0, spec, {})->data(), first);
  }
  EXPECT_EQ(memory.take(0, spec, {})->data(), first);
  const NDArrayRef view = memory.take(0, spec, {})->reshaped({10, 10});
  EXPECT_NE(memory.take(0, spec, {})->data(), view->data());
  const size_t before = cpu_allocator().stats().in_use;
  OutputMemory::release_all();
  EXPECT_LT(cpu_allocator().stats().in_use, before);
}

TEST(OutputMemory, SavedValuesGetTheSameBlockUnlessItIsHeld) {
  OutputMemory memory;
  const void *first, *second;
  {
    const StorageRef a = memory.take_saved(4096, {});
    first = a->data();
    const StorageRef b = memory.take_saved(4096, {});
    second = b->data();
    EXPECT_NE(second, first);
  }
  EXPECT_EQ(memory.take_saved(4096, {})->data(), first);
  const StorageRef held = memory.take_saved(4096, {});
  EXPECT_EQ(memory.take_saved(4096, {})->data(), second);
}

TEST(OutputMemory, QueuedTasksHoldNoSavedValues) {
  OutputMemory memory;
  int provided = 0;
  const auto make = [&] {
    return Storage::provided({}, 4096, [&] {
      ++provided;
      return memory.take_saved(4096, {});
    });
  };
  StorageRef of_first_run = make();
  const StorageRef of_second_run = make();  // queued before the first run has begun
  EXPECT_EQ(provided, 0);
  const void* const block = of_first_run->data();
  EXPECT_EQ(of_first_run->data(), block);
  EXPECT_EQ(provided, 1);
  of_first_run = nullptr;
  EXPECT_EQ(of_second_run->data(), block);
}

}  // namespace
}  // namespace mxlite::graph
