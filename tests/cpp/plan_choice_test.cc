// Which candidate of a library is taken, measured and kept, on candidates that are numbers.
#include "cpp/ops/plan_choice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <vector>

#include "cpp/ops/nn/convolution_problem.h"
#include "cpp/ops/plan_store.h"

namespace mxlite {
namespace {

constexpr float kFails = std::numeric_limits<float>::infinity();

struct Candidate {
  std::string name;
  float time = 1;
  bool builds = true;
};

class FakeCandidates final : public PlanCandidates {
 public:
  explicit FakeCandidates(std::vector<Candidate> list) : list_(std::move(list)) {}
  int64_t count() const override { return static_cast<int64_t>(list_.size()); }
  std::string name(int64_t i) const override { return at(i).name; }
  bool build(int64_t i) override {
    built.push_back(i);
    return at(i).builds;
  }
  float measure(int64_t i) override {
    EXPECT_EQ(built.back(), i);
    measured.push_back(i);
    return at(i).time;
  }
  std::vector<int64_t> built, measured;

 private:
  const Candidate& at(int64_t i) const { return list_.at(static_cast<size_t>(i)); }
  std::vector<Candidate> list_;
};

using Indices = std::vector<int64_t>;

class PlanChoiceTest : public testing::Test {
 protected:
  PlanChoiceTest() : store_("") {}
  PlanStore store_;
};

TEST_F(PlanChoiceTest, WithoutAStoreTheFirstThatBuildsIsTakenUnmeasured) {
  FakeCandidates c({{"a", 1, false}, {"b", 9}, {"c", 1}});
  EXPECT_EQ(choose_plan(c, "p", nullptr), 1);
  EXPECT_EQ(c.built, (Indices{0, 1}));
  EXPECT_TRUE(c.measured.empty());
}

TEST_F(PlanChoiceTest, TheFastestIsTakenAndKept) {
  FakeCandidates c({{"a", 3}, {"b", 1, false}, {"c", 2}, {"d", kFails}, {"e", 2}});
  EXPECT_EQ(choose_plan(c, "p", &store_), 2);
  EXPECT_EQ(c.measured, (Indices{0, 2, 3, 4}));
  EXPECT_EQ(store_.find("p"), "c");
}

TEST_F(PlanChoiceTest, WhatIsKnownIsBuiltAndNotMeasured) {
  store_.add("p", "b");
  FakeCandidates c({{"a", 1}, {"b", 9}});
  EXPECT_EQ(choose_plan(c, "p", &store_), 1);
  EXPECT_EQ(c.built, (Indices{1}));
  EXPECT_TRUE(c.measured.empty());
}

TEST_F(PlanChoiceTest, AKnownNameThatIsGoneOrNotAllowedIsMeasuredAnew) {
  store_.add("p", "another library's");
  FakeCandidates gone({{"a", 2}, {"b", 1}});
  EXPECT_EQ(choose_plan(gone, "p", &store_), 1);
  EXPECT_EQ(store_.find("p"), "b");
  FakeCandidates barred({{"a", 2}, {"b", 1, false}});
  EXPECT_EQ(choose_plan(barred, "p", &store_), 0);
  EXPECT_EQ(store_.find("p"), "a");
}

TEST_F(PlanChoiceTest, OtherProblemsKeepTheirPlans) {
  store_.add("q", "a");
  FakeCandidates c({{"a", 2}, {"b", 1}});
  choose_plan(c, "p", &store_);
  EXPECT_EQ(store_.find("q"), "a");
}

TEST_F(PlanChoiceTest, OnlyTheFavouritesAreMeasured) {
  std::vector<Candidate> many;
  for (int i = 0; i < 40; ++i)
    many.push_back({std::string(1, static_cast<char>('A' + i)), 50.0f - i});
  FakeCandidates c(many);
  EXPECT_EQ(choose_plan(c, "p", &store_), 11);
  EXPECT_EQ(c.measured.size(), 12u);
}

TEST_F(PlanChoiceTest, WhereTheFavouritesFailAnotherOneRunsAndIsNotKept) {
  std::vector<Candidate> many(14, {"a", kFails});
  many[12].builds = false;
  FakeCandidates c(many);
  EXPECT_EQ(choose_plan(c, "p", &store_), 13);
  EXPECT_EQ(store_.find("p"), std::nullopt);
}

TEST_F(PlanChoiceTest, NoCandidateIsNoPlan) {
  FakeCandidates none({}), broken({{"a", 1, false}});
  EXPECT_EQ(choose_plan(none, "p", &store_), -1);
  EXPECT_EQ(choose_plan(broken, "p", &store_), -1);
  EXPECT_EQ(choose_plan(broken, "p", nullptr), -1);
  EXPECT_EQ(store_.find("p"), std::nullopt);
}

TEST_F(PlanChoiceTest, ANamelessPlanRunsAndIsNotKept) {
  FakeCandidates c({{"", 1}, {"b", 2}});
  EXPECT_EQ(choose_plan(c, "p", &store_), 0);
  EXPECT_EQ(store_.find("p"), std::nullopt);
}

TEST(PlanChoiceProcessesTest, TheSecondProcessDoesNotMeasure) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "plan_choice";
  std::filesystem::remove_all(folder);
  const std::string path = (folder / "cudnn-9.plans").string();
  const std::vector<Candidate> list = {{"a", 2}, {"b", 1}};
  {
    PlanStore store(path);
    FakeCandidates first(list);
    choose_plan(first, "p", &store);
  }
  PlanStore store(path);
  FakeCandidates second(list);
  EXPECT_EQ(choose_plan(second, "p", &store), 1);
  EXPECT_TRUE(second.measured.empty());
  std::filesystem::remove_all(folder);
}

TEST(ConvolutionTuningTest, TheParameterGoesBeforeTheEnvironment) {
  using enum ConvolutionTuning;
  for (const int64_t environment : {0, 1, 2}) {
    EXPECT_EQ(convolution_tuning("off", environment), kOff);
    EXPECT_EQ(convolution_tuning("limited_workspace", environment), kLimitedWorkspace);
    EXPECT_EQ(convolution_tuning("fastest", environment), kFastest);
  }
  EXPECT_EQ(convolution_tuning(std::nullopt, 0), kOff);
  EXPECT_EQ(convolution_tuning(std::nullopt, 1), kLimitedWorkspace);
  EXPECT_EQ(convolution_tuning(std::nullopt, 2), kFastest);
}

TEST(ConvolutionTuningTest, OtherValuesOfTheEnvironmentAreNamed) {
  for (const int64_t wrong : {-1, 3}) {
    try {
      convolution_tuning(std::nullopt, wrong);
      FAIL() << wrong;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("MXNET_CUDNN_AUTOTUNE_DEFAULT: "), std::string::npos) << text;
      EXPECT_NE(text.find("0, 1 or 2 expected"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace mxlite
