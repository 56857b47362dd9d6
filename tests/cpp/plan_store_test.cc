#include "cpp/ops/plan_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "cpp/ops/nn/convolution_problem.h"

namespace mxlite {
namespace {

class PlanStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / "plan_store" / info->name();
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "cudnn-9.plans").string(); }
  void write(const std::string& content) const {
    std::filesystem::create_directories(folder_);
    std::ofstream(path(), std::ios::binary) << content;
  }

  static constexpr int kWriters = 4, kPlans = 8;  // plans of each writer
  static void for_each_writer(const std::function<void(int)>& write) {
    std::vector<std::jthread> threads;
    for (int writer = 0; writer < kWriters; ++writer) threads.emplace_back(write, writer);
  }
  static void add_plans(PlanStore& store, int writer) {
    for (int i = 0; i < kPlans; ++i) store.add(std::to_string(writer * kPlans + i), "plan");
  }
  void expect_all_plans() const {
    const PlanStore again(path());
    for (int i = 0; i < kWriters * kPlans; ++i) EXPECT_EQ(again.find(std::to_string(i)), "plan");
  }

  std::filesystem::path folder_;
};

TEST_F(PlanStoreTest, AnotherProcessFindsWhatWasAdded) {
  PlanStore(path()).add("convolution a", "eng3_k1=2");
  const PlanStore again(path());
  EXPECT_EQ(again.find("convolution a"), "eng3_k1=2");
  EXPECT_EQ(again.find("convolution b"), std::nullopt);
}

TEST_F(PlanStoreTest, AWriterKeepsWhatAnotherOneWroteMeanwhile) {
  PlanStore first(path()), second(path());
  first.add("a", "1");
  second.add("b", "2");
  const PlanStore again(path());
  EXPECT_EQ(again.find("a"), "1");
  EXPECT_EQ(again.find("b"), "2");
}

TEST_F(PlanStoreTest, ALaterPlanReplacesAnEarlierOne) {
  PlanStore store(path());
  store.add("a", "1");
  store.add("a", "2");
  EXPECT_EQ(store.find("a"), "2");
  EXPECT_EQ(PlanStore(path()).find("a"), "2");
}

TEST_F(PlanStoreTest, LeavesNoFileBesideTheStore) {
  PlanStore(path()).add("a", "1");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    names.insert(entry.path().filename().string());
  EXPECT_EQ(names, std::set<std::string>{"cudnn-9.plans"});
}

TEST_F(PlanStoreTest, AFolderThatCannotBeWrittenIsNoError) {
  std::filesystem::create_directories(folder_.parent_path());
  std::ofstream(folder_) << "a file where the folder should be";
  PlanStore store(path());
  store.add("a", "1");
  EXPECT_EQ(store.find("a"), "1");
  EXPECT_EQ(PlanStore("").find("a"), std::nullopt);
}

TEST_F(PlanStoreTest, WritersInThreadsLoseNothing) {
  PlanStore store(path());
  for_each_writer([&](int writer) { add_plans(store, writer); });
  expect_all_plans();
}

// Two GPUs of one model have one store each, for the same file.
TEST_F(PlanStoreTest, StoresOfOneFileInOneProcessLoseNothing) {
  for_each_writer([&](int writer) {
    PlanStore own(path());
    add_plans(own, writer);
  });
  expect_all_plans();
}

TEST_F(PlanStoreTest, ProcessesLoseNothing) {
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    PlanStore own(path());
    add_plans(own, writer);
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  expect_all_plans();
}

TEST_F(PlanStoreTest, AForeignFileIsReplacedByTheNextPlan) {
  write(
      std::string("\x7f"
                  "ELF\0\t\0\n\t\n",
                  11));
  PlanStore store(path());
  store.add("a", "1");
  const PlanStore again(path());
  EXPECT_EQ(again.find("a"), "1");
  EXPECT_EQ(again.find(std::string("\0", 1)), std::nullopt);
}

TEST_F(PlanStoreTest, ABrokenFileIsReadAsFarAsItGoes) {
  const auto plans_of = [&](const std::string& content) {
    write(content);
    const PlanStore store(path());
    std::string found;
    for (const char* key : {"a", "b", "d"}) found += store.find(key).value_or("-");
    return found;
  };
  EXPECT_EQ(plans_of("mxlite plans 2\na\t1\nline that was cut of"), "1--");
  // Plans of version 1 may break the rules of their problems.
  EXPECT_EQ(plans_of("mxlite plans 1\na\t1\n"), "---");
  EXPECT_EQ(plans_of("another format\nb\t2\n"), "---");
  EXPECT_EQ(plans_of(""), "---");
  EXPECT_EQ(plans_of("mxlite plans 2\na\t1\nb\t\n\tc\n\nd\t2"), "1-2");
}

TEST_F(PlanStoreTest, AFileThatIsNotValidIsNamedOnce) {
  const auto warnings = [&] {
    testing::internal::CaptureStderr();
    PlanStore store(path());
    store.add("b", "2");  // reads the file again and writes a valid one
    store.add("c", "3");
    const std::string text = testing::internal::GetCapturedStderr();
    if (!text.empty()) {
      EXPECT_NE(text.find(path()), std::string::npos) << text;
    }
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(warnings(), 0);  // no file
  EXPECT_EQ(warnings(), 0);  // a valid file
  for (const char* content : {"mxlite plans 2\na\t1\nline that was cut of", "mxlite plans 2\na\t\n",
                              "mxlite plans 1\na\t1\n", ""}) {
    write(content);
    EXPECT_EQ(warnings(), 1) << content;
    EXPECT_EQ(warnings(), 0) << content;
  }
  write("mxlite plans 2\na\t1\n");
  std::filesystem::resize_file(path(), (size_t{64} << 20) + 1);  // zeros follow, without a line end
  testing::internal::CaptureStderr();
  EXPECT_EQ(PlanStore(path()).find("a"), std::nullopt);
  EXPECT_NE(testing::internal::GetCapturedStderr(), "");
}

TEST_F(PlanStoreTest, TextThatWouldBreakTheFileStaysInMemory) {
  PlanStore store(path());
  store.add("a\tb", "1");
  store.add("c", "2\nd\t3");
  store.add("e", "4");
  EXPECT_EQ(store.find("a\tb"), "1");
  const PlanStore again(path());
  EXPECT_EQ(again.find("a"), std::nullopt);
  EXPECT_EQ(again.find("c"), std::nullopt);
  EXPECT_EQ(again.find("d"), std::nullopt);
  EXPECT_EQ(again.find("e"), "4");
}

// A user who ignores permissions, such as root, writes the file. No user gets an error.
TEST_F(PlanStoreTest, AReadOnlyFolderIsNoError) {
  namespace fs = std::filesystem;
  fs::create_directories(folder_);
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  PlanStore store(path());
  store.add("a", "1");
  EXPECT_EQ(store.find("a"), "1");
  EXPECT_EQ(fs::exists(path()), geteuid() == 0);
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST(PlanStorePathTest, NamesDeviceAndVersion) {
  EXPECT_EQ(plan_store_path("/c", "cudnn", "91300", "NVIDIA H100 80GB/HBM3"),
            "/c/cudnn-91300-NVIDIA_H100_80GB_HBM3.plans");
  std::set<std::string> paths;
  for (const char* version : {"91300", "91400"})
    for (const char* device : {"NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H200"})
      paths.insert(plan_store_path("/c", "cudnn", version, device));
  EXPECT_EQ(paths.size(), 6u);
  EXPECT_EQ(plan_store_path("", "cudnn", "91300", "NVIDIA H100"), "");
}

ConvolutionParams params() {
  ConvolutionParams p;
  p.kernel = {3, 5};
  p.stride = {2, 1};
  p.pad = {1, 2};
  p.num_filter = 8;
  p.num_group = 2;
  p.workspace = 16;
  p.cudnn_tune = "off";
  return p;
}
ConvolutionProblem problem(bool channels_last) {
  return describe_convolution(ConvolutionDirection::kForward, params(), {2, 4, 9, 7}, {2, 8, 5, 7},
                              DType::kFloat16, channels_last);
}

TEST(PlanStorePathTest, TheFolderIsThatOfTheFirstVariable) {
  const std::vector<const char*> names = {"MXLITE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::string> before;
  for (const char* name : names) {
    const char* const value = std::getenv(name);
    before.push_back(value ? value : "");
    setenv(name, "", 1);
  }
  EXPECT_EQ(cache_folder(), "");
  setenv("HOME", "/home/a", 1);
  EXPECT_EQ(cache_folder(), "/home/a/.cache/mxlite");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_folder(), "/x/mxlite");
  setenv("MXLITE_CACHE_DIR", "/m", 1);
  EXPECT_EQ(cache_folder(), "/m");
  for (size_t i = 0; i < names.size(); ++i) setenv(names[i], before[i].c_str(), 1);
}

TEST(ConvolutionProblemTest, TextNamesEverythingThatMatters) {
  ConvolutionProblem p = problem(/*channels_last=*/true);
  p.bias = p.relu = true;
  EXPECT_EQ(p.text(),
            "convolution forward float16 channels_last data 2x4x9x7 weight 8x2x3x5 output 2x8x5x7 "
            "stride 2x1 pad 1x2 dilate 1x1 groups 2 bias relu tuning 0 workspace 16777216 "
            "alignment 16");
}

TEST(ConvolutionProblemTest, EveryDifferenceMakesAnotherKey) {
  const ConvolutionProblem base = problem(false);
  std::vector<ConvolutionProblem> all(15, base);
  all[1].direction = ConvolutionDirection::kBackwardWeight;
  all[2].tuning = ConvolutionTuning::kFastest;
  all[3].dtype = DType::kFloat32;
  all[4].channels_last = true;
  all[5].bias = true;
  all[6].addend = true;
  all[7].relu = true;
  all[8].groups = 1;
  all[9].data[0] = 3;
  all[10].pad[1] = 0;
  all[11].workspace_bytes = 0;
  all[12].allow_conversion = true;
  all[13].deterministic = true;
  all[14].alignment = 4;
  std::set<std::string> texts;
  for (const ConvolutionProblem& p : all) texts.insert(p.text());
  EXPECT_EQ(texts.size(), all.size());
  for (size_t i = 1; i < all.size(); ++i) EXPECT_FALSE(all[i] == base) << i;
  EXPECT_EQ(ConvolutionProblemHash()(problem(false)), ConvolutionProblemHash()(base));
}

// A batch of three 5 x 5 images takes 300 bytes: the second one does not begin at 16.
TEST(ConvolutionProblemTest, ASliceThatBeginsElsewhereIsAnotherProblem) {
  alignas(64) static const float images[2 * 75 + 4] = {};
  EXPECT_EQ(common_alignment({images, nullptr, images + 4}), 16);
  EXPECT_EQ(common_alignment({images, images + 75}), 4);
  EXPECT_EQ(common_alignment({images + 2, nullptr}), 8);
  EXPECT_EQ(common_alignment({reinterpret_cast<const char*>(images) + 2}), 2);
  ConvolutionProblem whole = problem(false), slice = whole;
  slice.alignment = common_alignment({images + 75});
  EXPECT_FALSE(whole == slice);
  EXPECT_NE(whole.text(), slice.text());
  EXPECT_NE(ConvolutionProblemHash()(whole), ConvolutionProblemHash()(slice));
}

TEST(ConvolutionProblemTest, RulesKeepFloat32AndTheSumsOfHalves) {
  ConvolutionProblem p = problem(false);
  p.dtype = DType::kFloat32;
  EXPECT_TRUE(plan_rules(p).no_tensor_cores);
  EXPECT_TRUE(plan_rules(p).no_down_conversion);
  EXPECT_FALSE(plan_rules(p).no_reduced_reduction);
  EXPECT_FALSE(plan_rules(p).deterministic);
  p.allow_conversion = p.deterministic = true;
  EXPECT_FALSE(plan_rules(p).no_tensor_cores);
  EXPECT_FALSE(plan_rules(p).no_down_conversion);
  EXPECT_TRUE(plan_rules(p).deterministic);
  for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
    p.dtype = half;
    EXPECT_FALSE(plan_rules(p).no_tensor_cores);
    EXPECT_TRUE(plan_rules(p).no_reduced_reduction);
  }
}

TEST(ConvolutionProblemTest, TheWorkspaceHasALimitInEveryMode) {
  ConvolutionParams p;
  p.kernel = {3, 3};
  p.num_filter = 2;
  const auto limit = [&](const char* tune, int64_t mebibytes) {
    p.cudnn_tune = tune;
    p.workspace = mebibytes;
    return plan_rules(describe_convolution(ConvolutionDirection::kForward, p, {1, 1, 5, 5},
                                           {1, 2, 3, 3}, DType::kFloat32, false))
        .most_workspace;
  };
  constexpr int64_t kMebi = int64_t{1} << 20, kGibi = int64_t{1} << 30;
  EXPECT_EQ(limit("off", 16), 16 * kMebi);
  EXPECT_EQ(limit("limited_workspace", 16), 16 * kMebi);
  EXPECT_EQ(limit("fastest", 16), 4 * kGibi);
  EXPECT_EQ(limit("fastest", 8192), 8 * kGibi);
  EXPECT_EQ(limit("off", INT64_MAX), kMebi * kMebi);
}

TEST(ConvolutionProblemTest, StridesFollowTheLayout) {
  using Numbers = ConvolutionProblem::Numbers;
  EXPECT_EQ(problem(false).strides_of({2, 4, 9, 7}), (Numbers{252, 63, 7, 1, 0}));
  EXPECT_EQ(problem(true).strides_of({2, 4, 9, 7}), (Numbers{252, 1, 28, 4, 0}));
}

TEST(ConvolutionProblemTest, OneDimensionBecomesTwo) {
  ConvolutionParams p;
  p.kernel = {3};
  p.pad = {1};
  p.num_filter = 6;
  const auto q = describe_convolution(ConvolutionDirection::kBackwardData, p, {2, 4, 9}, {2, 6, 9},
                                      DType::kFloat32, false);
  using Numbers = ConvolutionProblem::Numbers;
  EXPECT_EQ(q.ndim, 4);
  EXPECT_EQ(q.data, (Numbers{2, 4, 1, 9, 0}));
  EXPECT_EQ(q.weight, (Numbers{6, 4, 1, 3, 0}));
  EXPECT_EQ(q.output, (Numbers{2, 6, 1, 9, 0}));
  EXPECT_EQ(q.pad[0], 0);
  EXPECT_EQ(q.pad[1], 1);
}

TEST(ConvolutionProblemTest, ThreeDimensionsAndChannelsLastParameter) {
  ConvolutionParams p;
  p.kernel = {1, 2, 3};
  p.num_filter = 5;
  p.layout = SpatialLayout::kNDHWC;
  const auto q = describe_convolution(ConvolutionDirection::kForward, p, {2, 6, 7, 8, 3},
                                      {2, 6, 6, 6, 5}, DType::kFloat32, false);
  using Numbers = ConvolutionProblem::Numbers;
  EXPECT_EQ(q.data, (Numbers{2, 3, 6, 7, 8}));
  EXPECT_EQ(q.weight, (Numbers{5, 3, 1, 2, 3}));
  EXPECT_TRUE(q.channels_last);
  EXPECT_EQ(q.strides_of(q.weight), (Numbers{18, 1, 18, 9, 3}));
}

}  // namespace
}  // namespace mxlite
