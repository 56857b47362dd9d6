// Tests arrays that lie side by side: their memory, and their independence from each other.
#include <gtest/gtest.h>

#include <cstring>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/bucket.h"

namespace mxlite {
namespace {

const std::vector<Shape> kShapes = {Shape{3, 5}, Shape{7}, Shape{0, 4}, Shape{1}};

NDArrayRef zeros(DType dtype) {
  NDArrayRef memory =
      NDArray::empty({Shape{Bucket::elements_for(dtype, kShapes)}, dtype}, Device{});
  std::memset(memory->data(), 0, memory->spec().bytes());
  return memory;
}

float* values(const NDArrayRef& array) { return static_cast<float*>(array->data()); }

TEST(Bucket, PartsLieInWholeCacheLinesWithZerosBetween) {
  const NDArrayRef memory = zeros(DType::kFloat32);
  const Bucket bucket(memory, kShapes);
  ASSERT_EQ(bucket.parts().size(), kShapes.size());
  const std::vector<int64_t> begins = {0, 16, 32, 32};
  for (size_t i = 0; i < kShapes.size(); ++i) {
    const NDArrayRef& part = bucket.parts()[i];
    EXPECT_EQ(part->shape(), kShapes[i]);
    EXPECT_EQ(values(part) - values(memory), begins[i]);
    for (int64_t k = 0; k < part->size(); ++k) values(part)[k] = static_cast<float>(i + 1);
  }
  const NDArrayRef all = bucket.range(0, 4);
  EXPECT_EQ(all->size(), 48);
  float sum = 0;
  for (int64_t k = 0; k < all->size(); ++k) sum += values(all)[k];
  EXPECT_EQ(sum, 15 * 1 + 7 * 2 + 1 * 4);
  const NDArrayRef some = bucket.range(1, 3);
  EXPECT_EQ(some->size(), 16);
  EXPECT_EQ(values(some)[0], 2);
  EXPECT_EQ(values(some)[7], 0);
}

TEST(Bucket, HalvesTakeLinesOfTwiceAsManyElements) {
  EXPECT_EQ(Bucket::elements_for(DType::kFloat16, kShapes), 96);
  const Bucket bucket(zeros(DType::kFloat16), kShapes);
  EXPECT_EQ(bucket.range(1, 2)->size(), 32);
}

TEST(Bucket, AWriteOfOnePartLeavesTheOthersAlone) {
  const Bucket bucket(zeros(DType::kFloat32), kShapes);
  engine::Var* const first = &bucket.parts()[0]->storage()->var();
  const uint64_t before = bucket.parts()[1]->storage()->var().version();
  engine::Var* const overwrites[] = {first};
  engine::Engine::get().push_fn("write", {{}, overwrites, {}}, {}, [] {});
  engine::Engine::get().wait(*first);
  EXPECT_EQ(first->version(), 1u);
  EXPECT_EQ(bucket.parts()[1]->storage()->var().version(), before);
}

TEST(Bucket, PartsKeepTheMemoryOfTheBucket) {
  const size_t before = cpu_allocator().stats().in_use;
  NDArrayRef part;
  {
    NDArrayRef memory = zeros(DType::kFloat32);
    const Bucket bucket(memory, kShapes);
    part = bucket.parts()[1];
    EXPECT_FALSE(part->storage()->is_foreign());
  }
  EXPECT_GT(cpu_allocator().stats().in_use, before);
  for (int64_t k = 0; k < part->size(); ++k) values(part)[k] = 3;
  EXPECT_EQ(values(part)[part->size() - 1], 3);
  part.reset();
  EXPECT_EQ(cpu_allocator().stats().in_use, before);
}

TEST(Bucket, AnArrayThatMovesIntoAPartHasItAlone) {
  const Bucket bucket(zeros(DType::kFloat32), kShapes);
  const NDArrayRef gradient = NDArray::empty({kShapes[0], DType::kFloat32}, Device{});
  const StorageRef before = gradient->storage();
  EXPECT_EQ(before->num_arrays(), 1u);
  const NDArrayRef& part = bucket.parts()[0];
  gradient->assign_handle(*part);
  EXPECT_EQ(before->num_arrays(), 0u);
  EXPECT_EQ(part->storage()->num_arrays(), 2u);
}

TEST(Storage, CountsArraysAndNoTasks) {
  const NDArrayRef array = NDArray::empty({Shape{2, 3}, DType::kFloat32}, Device{});
  const StorageRef storage = array->storage();
  EXPECT_EQ(storage->num_arrays(), 1u);
  {
    const NDArrayRef view = array->reshaped(Shape{6}), other = view->detached();
    EXPECT_EQ(storage->num_arrays(), 3u);
    array->assign_handle(*NDArray::empty({Shape{1}, DType::kFloat32}, Device{}));
    EXPECT_EQ(storage->num_arrays(), 2u);
    array->assign_handle(*view);
    array->assign_handle(*other);
    EXPECT_EQ(storage->num_arrays(), 3u);
  }
  EXPECT_EQ(storage->num_arrays(), 1u);
  engine::Var* const updates[] = {&storage->var()};
  engine::Engine::get().push_fn("hold", {{}, {}, updates}, {},
                                [storage] { EXPECT_EQ(storage->num_arrays(), 1u); });
  EXPECT_EQ(storage->num_arrays(), 1u);
  engine::Engine::get().wait(storage->var());
}

TEST(Bucket, MemoryOfAnotherSizeIsRefused) {
  const NDArrayRef memory = NDArray::empty({Shape{47}, DType::kFloat32}, Device{});
  EXPECT_THROW(Bucket(memory, kShapes), Error);
}

}  // namespace
}  // namespace mxlite
