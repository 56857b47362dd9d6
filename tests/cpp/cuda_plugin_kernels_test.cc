// Tests which kernels the plug-in registers. The test needs the libraries, but no driver and no
// GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "cpp/ops/op_schema.h"
#include "cpp/ops/planned_kernel.h"

namespace mxlite {
namespace {

// The plug-in is linked, so that its kernels register themselves before main.
const OpRegistry& registry() { return ops(); }

const std::vector<Kernel>& kernels_of(const OpSchema& op, DeviceType device) {
  return op.kernels[device];
}

std::vector<std::string> names_in(const char* file_name) {
  std::ifstream file(std::string(MXLITE_TEST_DATA) + "/" + file_name);
  std::vector<std::string> names;
  for (std::string name; file >> name;) names.push_back(name);
  return names;
}

TEST(CudaPluginKernelsTest, TheModelZooRunsForwardBackwardAndUpdate) {
  const std::vector<std::string> names = names_in("model_zoo_ops.txt");
  ASSERT_GT(names.size(), 40u);
  std::string missing;
  for (const std::string& name : names)
    if (kernels_of(registry().get(name), DeviceType::kCUDA).empty()) missing += name + " ";
  EXPECT_EQ(missing, "");
}

TEST(CudaPluginKernelsTest, OnlyTheDocumentedOperatorsHaveNoKernel) {
  std::vector<std::string> missing;
  for (const OpSchema* op : registry().all())
    if (kernels_of(*op, DeviceType::kCUDA).empty() && !kernels_of(*op, DeviceType::kCPU).empty())
      missing.push_back(op->name);
  std::sort(missing.begin(), missing.end());
  EXPECT_EQ(missing, names_in("ops_without_cuda_kernel.txt"));
}

TEST(CudaPluginKernelsTest, EveryKernelHasAFunction) {
  size_t count = 0;
  for (const OpSchema* op : registry().all())
    for (const Kernel& kernel : kernels_of(*op, DeviceType::kCUDA)) {
      EXPECT_NE(kernel.run, nullptr) << op->name;
      ++count;
    }
  EXPECT_GT(count, 250u);
}

TEST(CudaPluginKernelsTest, AnOperatorIsRegisteredOnce) {
  for (const OpSchema* op : registry().all())
    EXPECT_LE(kernels_of(*op, DeviceType::kCUDA).size(), 1u) << op->name;
}

// A CUDA kernel gets what a CPU kernel of the operator gets: strides are never ignored.
TEST(CudaPluginKernelsTest, StridedInputsAreTakenWhereTheCpuTakesThem) {
  std::string only_cuda;
  for (const OpSchema* op : registry().all()) {
    const auto& kernels = kernels_of(*op, DeviceType::kCUDA);
    if (kernels.empty() || !kernels[0].strided_inputs) continue;
    bool cpu = false;
    for (const Kernel& kernel : kernels_of(*op, DeviceType::kCPU)) cpu |= kernel.strided_inputs;
    if (!cpu) only_cuda += op->name + " ";
  }
  EXPECT_EQ(only_cuda, "Activation _activation_backward ");
}

TEST(CudaPluginKernelsTest, ConvolutionsArePlanned) {
  registry();
  for (const char* name : {"Convolution", "_convolution_backward_data",
                           "_convolution_backward_weight", "BatchNorm", "Pooling", "relu"})
    EXPECT_NE(find_planned_kernel(ops().get(name), DeviceType::kCUDA), nullptr) << name;
}

}  // namespace
}  // namespace mxlite
