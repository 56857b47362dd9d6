// Tests the limit of open files, and the errors when it is reached.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "cpp/kvstore/comm/descriptors.h"
#include "tests/cpp/errors.h"
#include "tests/cpp/few_descriptors.h"

namespace mxlite {
namespace {

TEST(Descriptors, TheSoftLimitIsRaisedToWhatIsNeeded) {
  const rlim_t open = open_descriptors().size();
  const SoftLimit low(open + 4);
  reserve_descriptors("a job", 3, 1);
  EXPECT_EQ(soft_limit(), open + 4);
  reserve_descriptors("a job", 10, 5);
  EXPECT_EQ(soft_limit(), open + 15);
  reserve_descriptors("a job", 2, 0);  // never lowers the limit
  EXPECT_EQ(soft_limit(), open + 15);
}

TEST(Descriptors, WhatIsSpareEndsAtTheHardLimit) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const SoftLimit low(open_descriptors().size() + 4);
  reserve_descriptors("a job", 8, int64_t{1} << 40);
  EXPECT_EQ(soft_limit(), limit.rlim_max);
}

TEST(Descriptors, AShortageIsToldWithTheNumbers) {
  MX_SKIP_IF_CHECKS_NEED_DESCRIPTORS();
  rlim_t most = 0;
  std::string text;
  {
    const FewDescriptors none(0);
    most = soft_limit();
    text = descriptor_shortage_text(EMFILE);
  }
  EXPECT_EQ(text, str("Too many open files: ", most, " descriptors are open, the limit is ", most,
                      "; raise the limit of open files (ulimit -n)"));
  EXPECT_HAS(descriptor_shortage_text(ENFILE), "sysctl fs.file-max");
  for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM})
    EXPECT_TRUE(is_descriptor_shortage(error));
  for (const int error : {EAGAIN, ECONNABORTED, EINTR, 0})
    EXPECT_FALSE(is_descriptor_shortage(error));
}

}  // namespace
}  // namespace mxlite
