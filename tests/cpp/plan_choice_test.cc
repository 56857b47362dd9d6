// Tests which candidate of a library is taken, measured and kept; the candidates are numbers.
#include "cpp/ops/plan_choice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpp/ops/nn/convolution_problem.h"
#include "cpp/ops/plan_cache.h"
#include "cpp/ops/plan_store.h"
#include "tests/cpp/errors.h"

namespace mxlite {
namespace {

constexpr float kFails = std::numeric_limits<float>::infinity();

struct Candidate {
  std::string name;
  float time = 1;
  bool builds = true;
  bool rounds = false;  // uses tensor cores
  int64_t workspace = 0;
  bool too_large = false;  // measuring finds no memory for the workspace
  bool runs = true;
};

// Like cuDNN's frontend, it excludes only candidates that it has listed before.
class FakeCandidates final : public PlanCandidates {
 public:
  explicit FakeCandidates(std::vector<Candidate> list) : list_(std::move(list)) {}
  std::string list() override {
    calls.push_back("list");
    barred_.assign(list_.size(), false);
    return no_list;
  }
  void exclude(const PlanRules& rules) override {
    calls.push_back("exclude");
    for (size_t i = 0; i < barred_.size(); ++i)
      barred_[i] =
          (rules.no_tensor_cores && list_[i].rounds) || list_[i].workspace > rules.most_workspace;
  }
  std::string supported() override {
    calls.push_back("supported");
    return no_support;
  }
  int64_t count() const override { return static_cast<int64_t>(barred_.size()); }
  std::string name(int64_t i) const override { return at(i).name; }
  bool build(int64_t i) override {
    built.push_back(i);
    if (while_building) while_building();
    return !barred_.at(static_cast<size_t>(i)) && at(i).builds;
  }
  float measure(int64_t i) override {
    EXPECT_EQ(built.back(), i);
    measured.push_back(i);
    if (at(i).too_large) fail(ErrorKind::kOutOfMemory, "no memory for a workspace");
    if (while_measuring) while_measuring();
    return at(i).time;
  }
  std::vector<int64_t> built, measured;
  std::vector<std::string> calls;
  std::string no_list, no_support;
  std::function<void()> while_measuring, while_building;

  int64_t run_other_than(int64_t failed) {
    return run_other_candidate(*this, failed, "it is broken", "p", [&](int64_t i) {
      tried.push_back(i);
      return at(i).runs ? "" : "so is this";
    });
  }
  std::vector<int64_t> tried;

 private:
  const Candidate& at(int64_t i) const { return list_.at(static_cast<size_t>(i)); }
  std::vector<Candidate> list_;
  std::vector<bool> barred_;
};

using Indices = std::vector<int64_t>;

class PlanChoiceTest : public testing::Test {
 protected:
  int64_t choose(FakeCandidates& candidates, const PlanRules& rules = {}) {
    return choose_plan(candidates, rules, "p", &tuning_).index;
  }

  PlanStore store_{""};
  TuningBudget::Clock::time_point now_;
  std::vector<std::string> lines_;
  TuningBudget budget_{60, 10, [this](const std::string& line) { lines_.push_back(line); },
                       [this] { return now_; }};
  const Tuning tuning_{store_, budget_};
};

TEST_F(PlanChoiceTest, RulesActOnTheListThatTheLibraryGave) {
  FakeCandidates c({{.name = "tf32", .time = 1, .rounds = true}, {.name = "exact", .time = 2}});
  EXPECT_EQ(choose(c, {.no_tensor_cores = true}), 1);
  EXPECT_EQ(c.calls, (std::vector<std::string>{"list", "exclude", "supported"}));
  EXPECT_EQ(c.measured, (Indices{1}));
  EXPECT_EQ(store_.find("p"), "exact");
  FakeCandidates untuned({{.name = "tf32", .rounds = true}, {.name = "exact"}});
  EXPECT_EQ(choose_plan(untuned, {.no_tensor_cores = true}, "p", nullptr).index, 1);
}

TEST_F(PlanChoiceTest, LargeWorkspacesAreNotEvenMeasured) {
  FakeCandidates c({{.name = "a", .time = 1, .workspace = 2000}, {.name = "b", .workspace = 1000}});
  EXPECT_EQ(choose(c, {.most_workspace = 1000}), 1);
  EXPECT_EQ(c.measured, (Indices{1}));
}

TEST_F(PlanChoiceTest, TheLibrarysReasonIsHandedOn) {
  FakeCandidates none({}), refused({{"a"}});
  none.no_list = "no engine for 5 groups";
  PlanChoice choice = choose_plan(none, {}, "p", &tuning_);
  EXPECT_EQ(choice.index, -1);
  EXPECT_EQ(choice.reason, "no engine for 5 groups");
  EXPECT_EQ(none.calls, (std::vector<std::string>{"list"}));
  refused.no_support = "misaligned";
  choice = choose_plan(refused, {}, "p", &tuning_);
  EXPECT_EQ(choice.reason, "misaligned");
  EXPECT_TRUE(refused.built.empty());
}

TEST_F(PlanChoiceTest, CandidatesThatFindNoMemoryAreSkipped) {
  FakeCandidates c({{.name = "a", .time = 1, .too_large = true}, {.name = "b", .time = 2}});
  EXPECT_EQ(choose(c), 1);
  EXPECT_EQ(c.measured, (Indices{0, 1}));
  EXPECT_EQ(store_.find("p"), "b");
  FakeCandidates broken({{"a"}});
  broken.while_measuring = [] { fail(ErrorKind::kDevice, "the device broke"); };
  EXPECT_THROW(choose_plan(broken, {}, "q", &tuning_), Error);
}

TEST_F(PlanChoiceTest, WhenTheBudgetIsSpentTheFirstIsTakenAndNotKept) {
  const auto tune = [&](const char* problem) {
    FakeCandidates c({{"a", 2}, {"b", 1}});
    c.while_measuring = [&] { now_ += std::chrono::seconds(8); };
    const int64_t index = choose_plan(c, {}, problem, &tuning_).index;
    return std::pair(index, c.measured.size());
  };
  for (const char* problem : {"0", "1", "2", "3"})
    EXPECT_EQ(tune(problem), std::pair(int64_t{1}, size_t{2}));
  EXPECT_FALSE(budget_.is_left());
  EXPECT_EQ(tune("4"), std::pair(int64_t{0}, size_t{0}));
  EXPECT_EQ(store_.find("4"), std::nullopt);
  EXPECT_EQ(tune("3").first, 1);  // a known plan is not measured again
  EXPECT_EQ(lines_,
            (std::vector<std::string>{
                "measured the algorithms of 1 problems in 16 s; later runs find the results",
                "measured the algorithms of 2 problems in 32 s; later runs find the results",
                "measured the algorithms of 3 problems in 48 s; later runs find the results",
                "measured the algorithms of 4 problems in 64 s, all of MXLITE_TUNING_SECONDS: "
                "others take the library's first choice"}));
}

TEST_F(PlanChoiceTest, QuickMeasuringSaysNothing) {
  FakeCandidates c({{"a", 2}, {"b", 1}});
  c.while_measuring = [&] { now_ += std::chrono::milliseconds(5); };
  choose(c);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(PlanChoiceTest, WithoutAStoreTheFirstThatBuildsIsTakenUnmeasured) {
  FakeCandidates c({{"a", 1, false}, {"b", 9}, {"c", 1}});
  EXPECT_EQ(choose_plan(c, {}, "p", nullptr).index, 1);
  EXPECT_EQ(c.built, (Indices{0, 1}));
  EXPECT_TRUE(c.measured.empty());
}

TEST_F(PlanChoiceTest, TheFastestIsTakenAndKept) {
  FakeCandidates c({{"a", 3}, {"b", 1, false}, {"c", 2}, {"d", kFails}, {"e", 2}});
  EXPECT_EQ(choose(c), 2);
  EXPECT_EQ(c.measured, (Indices{0, 2, 3, 4}));
  EXPECT_EQ(store_.find("p"), "c");
}

TEST_F(PlanChoiceTest, WhatIsKnownIsBuiltAndNotMeasured) {
  store_.add("p", "b");
  FakeCandidates c({{"a", 1}, {"b", 9}});
  EXPECT_EQ(choose(c), 1);
  EXPECT_EQ(c.built, (Indices{1}));
  EXPECT_TRUE(c.measured.empty());
}

TEST_F(PlanChoiceTest, AKnownNameThatIsGoneOrNotAllowedIsMeasuredAnew) {
  store_.add("p", "another library's");
  FakeCandidates gone({{"a", 2}, {"b", 1}});
  EXPECT_EQ(choose(gone), 1);
  EXPECT_EQ(store_.find("p"), "b");
  FakeCandidates barred({{"a", 2}, {"b", 1, false}});
  EXPECT_EQ(choose(barred), 0);
  EXPECT_EQ(store_.find("p"), "a");
}

TEST_F(PlanChoiceTest, OtherProblemsKeepTheirPlans) {
  store_.add("q", "a");
  FakeCandidates c({{"a", 2}, {"b", 1}});
  choose(c);
  EXPECT_EQ(store_.find("q"), "a");
}

TEST_F(PlanChoiceTest, OnlyTheFavouritesAreMeasured) {
  std::vector<Candidate> many;
  for (int i = 0; i < 40; ++i)
    many.push_back({std::string(1, static_cast<char>('A' + i)), 50.0f - i});
  FakeCandidates c(many);
  EXPECT_EQ(choose(c), 11);
  EXPECT_EQ(c.measured.size(), 12u);
}

TEST_F(PlanChoiceTest, FewerAreMeasuredWhereBuildingIsSlow) {
  const auto measured = [&](int milliseconds) {
    FakeCandidates c(std::vector<Candidate>(40, {"a"}));
    c.while_building = [&] { now_ += std::chrono::milliseconds(milliseconds); };
    choose_plan(c, {}, std::to_string(milliseconds), &tuning_);
    return c.measured.size();
  };
  EXPECT_EQ(measured(50), 12u);
  EXPECT_EQ(measured(300), 4u);
}

TEST(OtherCandidateTest, TheNextOneThatRunsIsTaken) {
  FakeCandidates c(
      {{.name = "a", .builds = false}, {.name = "b"}, {.name = "c", .runs = false}, {.name = "d"}});
  c.list();
  testing::internal::CaptureStderr();
  EXPECT_EQ(c.run_other_than(1), 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "mxlite: p: b failed (it is broken), so d runs\n");
  EXPECT_EQ(c.tried, (Indices{2, 3}));
}

TEST(OtherCandidateTest, WhereAllFailTheFirstReasonIsThrown) {
  FakeCandidates c({{.name = "a"}, {.name = "b", .runs = false}});
  c.list();
  EXPECT_HAS(error_of([&] { c.run_other_than(0); }), "p: it is broken");
}

TEST(PlanCacheTest, UnmeasuredPlansAreMadeAgainOnceMeasuringIsPossible) {
  PlanCache<int, std::string, std::hash<std::string>> cache;
  bool capturing = true;
  int made = 0;
  const auto get = [&](const std::string& problem, int device) {
    return *cache.get(
        problem, device,
        [&] {
          return decltype(cache)::Made{std::make_shared<int>(made++), !capturing};
        },
        [&] { return !capturing; });
  };
  EXPECT_EQ(get("p", 0), 0);
  EXPECT_EQ(get("p", 0), 0);
  EXPECT_EQ(get("p", 1), 1);
  capturing = false;
  EXPECT_EQ(get("p", 0), 2);
  EXPECT_EQ(get("p", 0), 2);  // measured
  EXPECT_EQ(get("q", 0), 3);
  capturing = true;
  EXPECT_EQ(get("q", 0), 3);
}

// cuDNN lists many candidates with tensor cores before those that float32 may use.
TEST_F(PlanChoiceTest, BarredCandidatesLeaveTheirMeasurementsToOthers) {
  std::vector<Candidate> many(30, {.name = "tf32", .time = 1, .rounds = true});
  many.push_back({.name = "slow", .time = 3});
  many.push_back({.name = "fast", .time = 2});
  FakeCandidates c(many);
  EXPECT_EQ(choose(c, {.no_tensor_cores = true}), 31);
  EXPECT_EQ(c.measured, (Indices{30, 31}));
  EXPECT_EQ(store_.find("p"), "fast");
}

TEST_F(PlanChoiceTest, WhereTheFavouritesFailAnotherOneRunsAndIsNotKept) {
  std::vector<Candidate> many(14, {"a", kFails});
  many[12].builds = false;
  FakeCandidates c(many);
  EXPECT_EQ(choose(c), 13);
  EXPECT_EQ(store_.find("p"), std::nullopt);
}

TEST_F(PlanChoiceTest, NoCandidateIsNoPlan) {
  FakeCandidates none({}), broken({{"a", 1, false}});
  EXPECT_EQ(choose(none), -1);
  EXPECT_EQ(choose(broken), -1);
  EXPECT_EQ(choose_plan(broken, {}, "p", nullptr).index, -1);
  EXPECT_EQ(store_.find("p"), std::nullopt);
}

TEST_F(PlanChoiceTest, ANamelessPlanRunsAndIsNotKept) {
  FakeCandidates c({{"", 1}, {"b", 2}});
  EXPECT_EQ(choose(c), 0);
  EXPECT_EQ(store_.find("p"), std::nullopt);
}

TEST(PlanChoiceProcessesTest, TheSecondProcessDoesNotMeasure) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "plan_choice";
  std::filesystem::remove_all(folder);
  const std::string path = (folder / "cudnn-9.plans").string();
  const std::vector<Candidate> list = {{"a", 2}, {"b", 1}};
  {
    PlanStore store(path);
    const Tuning tuning{store, TuningBudget::of_process()};
    FakeCandidates first(list);
    choose_plan(first, {}, "p", &tuning);
  }
  PlanStore store(path);
  const Tuning tuning{store, TuningBudget::of_process()};
  FakeCandidates second(list);
  EXPECT_EQ(choose_plan(second, {}, "p", &tuning).index, 1);
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
    const std::string text = error_of([&] { convolution_tuning(std::nullopt, wrong); });
    EXPECT_HAS(text, "MXNET_CUDNN_AUTOTUNE_DEFAULT must be 0, 1 or 2, got ");
  }
}

}  // namespace
}  // namespace mxlite
