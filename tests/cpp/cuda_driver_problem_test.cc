// Tests the error texts for drivers that cannot run the CUDA plug-in.
#include <gtest/gtest.h>

#include "cpp/core/cuda/driver_problem.h"
#include "tests/cpp/errors.h"

namespace mxlite::cuda {
namespace {

TEST(DriverProblemTest, NamesWhatIsThereAndWhatIsNeeded) {
  EXPECT_EQ(driver_problem(13000, 13000), "");
  EXPECT_EQ(driver_problem(13010, 13000), "");
  const std::string old = driver_problem(12040, 13000);
  EXPECT_HAS(old, "supports CUDA up to 12.4, but this build needs CUDA 13.0");
  EXPECT_HAS(driver_problem(0, 13000), "no NVIDIA driver that answers");
  EXPECT_HAS(architecture_problem(1, "Tesla V100", "7.0", "9.0"),
             "gpu(1) is Tesla V100 of architecture 7.0, but this build has kernels for 9.0 only");
}

}  // namespace
}  // namespace mxlite::cuda
