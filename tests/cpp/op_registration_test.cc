// Tests the registration of operators and kernels, and which gradient rule of an operator is used.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cpp/ops/planned_kernel.h"
#include "cpp/ops/registration.h"
#include "tests/cpp/errors.h"

namespace mxlite {
namespace {

std::vector<std::string> candidates(const char* op) {
  std::vector<std::string> names;
  for (const Kernel& kernel : ops().get(op).kernels[DeviceType::kCPU]) names.push_back(kernel.name);
  return names;
}

OpSchema plain(const char* name) { return OpBuilder<NoParams>(name); }
void no_kernel(KernelContext&, const NoParams&, Inputs, Outputs) {}

TEST(OpRegistrationTest, LibraryKernelsAreTriedBeforeNativeOnes) {
  for (const char* op : {"FullyConnected", "Pooling", "softmax"})
    EXPECT_EQ(candidates(op), (std::vector<std::string>{"onednn", "native"})) << op;
  for (const char* op : {"Convolution", "LRN"})
    EXPECT_EQ(candidates(op), (std::vector<std::string>{"onednn", "onednn in float32", "native"}))
        << op;
}

TEST(OpRegistrationTest, StagesRunInOrderWhateverTheOrderOfTheFiles) {
  ops();  // runs the registrations of the library
  static std::string order;
  // These are static, as in the files of operators, because the registry keeps pointers to them
  // until it calls them.
  static const Registration last(
      Stage::kPlans, [](OpRegistry&) { order += "4"; }, "a.cc");
  static const Registration second(
      Stage::kKernels, [](OpRegistry&) { order += "3"; }, "b.cc");
  static const Registration first(
      Stage::kKernels, [](OpRegistry&) { order += "2"; }, "a.cc");
  static const Registration schema(
      Stage::kSchemas, [](OpRegistry&) { order += "1"; }, "z.cc");
  OpRegistry registry;
  Registration::run_all(registry);
  EXPECT_EQ(order, "1234");
  Registration::run_all(registry);
  EXPECT_EQ(order, "1234") << "a registration ran twice";
}

TEST(OpRegistrationTest, MistakesOfFilesAreFoundWhenTheRegistryIsFilled) {
  OpRegistry registry;
  registry.add(plain("one"));
  EXPECT_HAS(error_of([&] { registry.add(plain("one")); }), "twice: one");
  EXPECT_HAS(error_of([&] { registry.check_complete(); }), "without a CPU kernel: one");
  registry.kernel<no_kernel>("one", DeviceType::kCPU);
  registry.check_complete();
  EXPECT_HAS(error_of([&] { registry.kernel<no_kernel>("two", DeviceType::kCPU); }),
             "unknown operator: two");
  EXPECT_HAS(error_of([&] { registry.kernel<no_kernel>("one", DeviceType::kCPU); }),
             "two native kernels for operator one on cpu");
  registry.kernel<no_kernel>("one", DeviceType::kCUDA);  // each device has its own list
  EXPECT_HAS(error_of([&] { add_planned_kernel(registry, "two", DeviceType::kCPU, {}); }), "two");
}

TEST(OpRegistrationTest, AllHostMemoryHasTheKernelsOfTheCpu) {
  DeviceMap<int> map;
  map[DeviceType::kCPU] = 1;
  map[DeviceType::kCUDA] = 2;
  EXPECT_EQ(map[DeviceType::kPinned], 1);
  EXPECT_EQ(map[DeviceType::kShared], 1);
  EXPECT_EQ(map[DeviceType::kCUDA], 2);
}

}  // namespace
}  // namespace mxlite
