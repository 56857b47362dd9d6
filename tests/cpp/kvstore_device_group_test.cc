// Groups of GPUs on a machine that has none.
#include <gtest/gtest.h>

#include <string>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/device_group.h"

namespace mxlite {
namespace {

TEST(DeviceGroup, WithoutAGpuTheErrorNamesTheBuildOption) {
  if (has_device_groups()) GTEST_SKIP() << "there is a GPU";
  try {
    make_device_group({0});
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("MXLITE_CUDA=ON"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace mxlite
