// Tests plug-ins whose libraries lie in Python packages, and plug-ins of another version.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "cpp/core/plugin_loader.h"
#include "tests/cpp/errors.h"

namespace mxlite {
namespace {

const std::string kNeedy = MXLITE_TEST_PLUGIN;       // needs libmxlite_test_needed.so
const std::string kPackages = MXLITE_TEST_PACKAGES;  // its folder nvidia/some/lib has that library

TEST(PluginLoaderTest, LibrariesAreFoundInThePackagesOfAnyFolder) {
  std::string why_not;
  set_package_folders({});
  EXPECT_EQ(load_plugin(kNeedy, why_not), nullptr);
  EXPECT_HAS(why_not, "libmxlite_test_needed.so: cannot open shared object file");
  set_package_folders({"/no/such/folder", kPackages});
  void* const library = load_plugin(kNeedy, why_not);
  ASSERT_NE(library, nullptr) << why_not;
  const auto needy = reinterpret_cast<int (*)()>(dlsym(library, "mxlite_test_needy"));
  ASSERT_NE(needy, nullptr);
  EXPECT_EQ(needy(), 42);
}

TEST(PluginLoaderTest, WhatIsNoLibraryIsNotTriedAgain) {
  std::string why_not;
  EXPECT_EQ(load_plugin("/no/such/library.so", why_not), nullptr);
  EXPECT_HAS(why_not, "/no/such/library.so");
}

TEST(LibraryVersionTest, LaterMinorVersionsServe) {
  EXPECT_EQ(version_problem("cuDNN", {9, 19, 0}, {9, 19, 1}, "p"), "");
  EXPECT_EQ(version_problem("cuDNN", {9, 20, 0}, {9, 19, 0}, "p"), "");
}

TEST(LibraryVersionTest, EarlierOnesAndOtherMajorOnesAreNamed) {
  const std::string text = version_problem("cuDNN", {9, 1, 0}, {9, 19, 0}, "/x/libcudnn.so.9");
  EXPECT_EQ(text,
            "/x/libcudnn.so.9 is cuDNN 9.1.0, but this build was compiled for 9.19.0; install "
            "cuDNN 9.19 or a later 9.x (pip install --upgrade \"mxlite[cuda]\")");
  EXPECT_NE(version_problem("cuDNN", {10, 30, 0}, {9, 19, 0}, "p"), "");
}

}  // namespace
}  // namespace mxlite
