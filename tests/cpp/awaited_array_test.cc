// Tests arrays whose values the program gives later.
#include "cpp/ndarray/awaited_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "tests/cpp/errors.h"

namespace mxlite {
namespace {

const TensorSpec kSpec{Shape{3}, DType::kFloat32};

NDArrayRef array_of(std::vector<float> values) {
  const NDArrayRef array = NDArray::empty(kSpec, Device{});
  std::copy(values.begin(), values.end(), static_cast<float*>(array->data()));
  return array;
}

// Adds 1 to the first element when the array has a value.
std::shared_ptr<std::atomic<float>> read_first(const NDArrayRef& array) {
  auto found = std::make_shared<std::atomic<float>>(0.0f);
  engine::Var* const var = &array->storage()->var();
  engine::Engine::get().push_fn("read", {{&var, 1}, {}, {}}, {}, [array, found] {
    *found = static_cast<const float*>(array->data())[0] + 1;
  });
  return found;
}

std::string error_of(const NDArrayRef& array) {
  return comm_error_of([&] { array->wait_to_read(); });
}

TEST(AwaitedArray, ReadersRunWhenTheValueComes) {
  AwaitedArray awaited(kSpec, "layer", 60);
  const auto found = read_first(awaited.array());
  EXPECT_FALSE(awaited.over());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(*found, 0);
  awaited.give(array_of({4, 5, 6}));
  EXPECT_TRUE(awaited.over());
  EXPECT_EQ(error_of(awaited.array()), "");
  engine::Engine::get().wait_all();
  EXPECT_EQ(*found, 5);
  const auto* values = static_cast<const float*>(awaited.array()->data());
  EXPECT_EQ((std::vector<float>(values, values + 3)), (std::vector<float>{4, 5, 6}));
}

TEST(AwaitedArray, WithoutValueItFailsAtTheDeadline) {
  AwaitedArray late(kSpec, "late layer", 0.05), soon(kSpec, "layer", 60);
  late.expect("one of two has come");
  EXPECT_HAS(error_of(late.array()), "late layer: one of two has come");
  EXPECT_TRUE(late.over());
  EXPECT_FALSE(soon.over());
  late.give(array_of({1, 2, 3}));  // after the deadline
  EXPECT_NE(error_of(late.array()), "");
  soon.fail("not wanted");
  EXPECT_HAS(error_of(soon.array()), "layer: not wanted");
}

TEST(AwaitedArray, ItFailsWithItsValueAndWithItsOwner) {
  NDArrayRef kept;
  {
    AwaitedArray awaited(kSpec, "layer", 60), dropped(kSpec, "other", 60);
    const NDArrayRef broken = array_of({1, 2, 3});
    engine::Var* const var = &broken->storage()->var();
    engine::Engine::get().push_fn("break", {{}, {&var, 1}, {}}, {},
                                  [] { fail(ErrorKind::kValue, "broken"); });
    awaited.give(broken);
    EXPECT_HAS(error_of(awaited.array()), "could not be computed");
    kept = dropped.array();
  }
  EXPECT_HAS(error_of(kept), "other: no value was given");
  EXPECT_THROW(engine::Engine::get().wait_all(), Error);
}

TEST(AwaitedArray, PushesDoNotWaitForLimitsMeanwhile) {
  AwaitedArray awaited(kSpec, "layer", 60);
  const NDArrayRef target = array_of({0, 0, 0});
  std::array<engine::Var*, 1> read = {&awaited.array()->storage()->var()};
  std::array<engine::Var*, 1> written = {&target->storage()->var()};
  for (int i = 0; i < 5000; ++i)  // more tasks than may be in flight
    engine::Engine::get().push_fn("add", {read, {}, written}, {},
                                  [target] { static_cast<float*>(target->data())[0] += 1; });
  awaited.give(array_of({1, 2, 3}));
  target->wait_to_read();
  EXPECT_EQ(static_cast<const float*>(target->data())[0], 5000);
}

}  // namespace
}  // namespace mxlite
