// When an executable on a GPU runs step by step, when it is recorded, and which memory it
// uses.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "cpp/graph/output_memory.h"
#include "cpp/graph/replay.h"
#include "tests/cpp/fake_stream.h"

namespace mxlite::graph {
namespace {

// Records addresses: a graph is what the bases were when it was made.
struct FakeGraph final : DeviceGraph {
  explicit FakeGraph(std::vector<std::string>& l) : log(l) {}
  void launch(Stream&, RandomState random) override {
    log.push_back(str("replay ", text, random.offset));
  }
  std::vector<std::string>& log;
  std::string text;
};

struct FakeRecorder final : GraphRecorder {
  std::unique_ptr<DeviceGraph> record(Stream& stream, const FillFn& fill) override {
    if (fails) fail(ErrorKind::kDevice, "this kernel cannot be recorded");
    auto graph = std::make_unique<FakeGraph>(log);
    static const RandomState on_device;
    fill(stream, &on_device);
    graph->text = log.back().substr(std::string("record ").size());
    log.pop_back();
    return graph;
  }
  std::vector<std::string> log;
  bool fails = false;
};

constexpr uint32_t kOutput = 3, kArena = 0, kInput = 1;  // slots: arena, two inputs, output
using Bases = std::array<void*, 4>;

class ReplayTest : public testing::Test {
 protected:
  explicit ReplayTest(size_t second_bytes = 8)
      : replay_(
            "net", {}, {kInput, {8, second_bytes}},
            [this](std::span<void* const> b, RandomState random, Stream&, const RandomState* d) {
              recorder_.log.push_back(str(d ? "record " : "steps ", name(b[kArena]),
                                          name(b[kInput]), name(b[kInput + 1]), name(b[kOutput]),
                                          ' ', d ? "" : str(random.offset)));
            }) {
    set_graph_recorder(&recorder_);
  }
  ~ReplayTest() override { set_graph_recorder(nullptr); }

  // Memory has one-letter names; * is memory that the replay has allocated.
  char memory_[26][8] = {};
  void* at(char letter) { return memory_[letter - 'a']; }
  std::string name(void* p) {
    for (char c = 'a'; c <= 'z'; ++c)
      if (p == at(c)) return std::string(1, c);
    return "*";
  }
  std::string run(const char* letters, uint64_t offset = 0) {
    Bases bases = {at(letters[0]), at(letters[1]), at(letters[2]), at(letters[3])};
    replay_.run(bases, {0, offset}, stream_);
    stream_.synchronize();
    return recorder_.log.back();
  }

  FakeRecorder recorder_;
  FakeStream stream_{0};
  Replay replay_;
};

TEST_F(ReplayTest, TheSecondRunInTheSameMemoryIsRecordedAndLaterOnesReplayed) {
  EXPECT_EQ(run("abco", 1), "steps abco 1");
  EXPECT_EQ(run("abco", 2), "replay abco 2");
  EXPECT_EQ(run("abco", 3), "replay abco 3");
  EXPECT_EQ(replay_.stats().recorded, 1);
  EXPECT_EQ(replay_.stats().step_by_step, 1);
}

TEST_F(ReplayTest, InputsThatMoveAreCopiedToAPlaceOfTheirOwn) {
  run("abco");
  std::memcpy(at('d'), "fresh", 6);
  EXPECT_EQ(run("adco"), "replay a*co 0");
  EXPECT_EQ(run("aeco"), "replay a*co 0");
  EXPECT_EQ(run("abco"), "replay a*co 0");
  EXPECT_EQ(replay_.stats().recorded, 1);
  EXPECT_EQ(replay_.stats().staged_inputs, 1);
  EXPECT_EQ(run("abdo"), "steps a*do 0");  // the second input moves for the first time
  EXPECT_EQ(run("abeo"), "replay a**o 0");
}

class ReplayOfLargeInputTest : public ReplayTest {
 protected:
  ReplayOfLargeInputTest() : ReplayTest(size_t{1} << 30) {}  // is never copied: there is no memory
};

TEST_F(ReplayOfLargeInputTest, EachAddressGetsAGraphWhenItComesAgain) {
  EXPECT_EQ(run("abco"), "steps abco 0");
  EXPECT_EQ(run("abdo"), "steps abdo 0");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run("abco"), "replay abco 0");
    EXPECT_EQ(run("abdo"), "replay abdo 0");
  }
  EXPECT_EQ(replay_.stats().recorded, 2);
  EXPECT_EQ(replay_.stats().staged_inputs, 0);
}

TEST_F(ReplayOfLargeInputTest, SmallInputsBesideItAreCopied) {
  run("abco");
  EXPECT_EQ(run("adco"), "replay a*co 0");
  EXPECT_EQ(run("aedo"), "steps a*do 0");  // the large one has moved: another graph
  EXPECT_EQ(run("afdo"), "replay a*do 0");
  EXPECT_EQ(run("agco"), "replay a*co 0");
  EXPECT_EQ(replay_.stats().staged_inputs, 1);
}

TEST_F(ReplayOfLargeInputTest, ManyAddressesDoNotEndTheGraphsOfSmallInputs) {
  for (char c = 'f'; c < 'z'; ++c) {
    const std::string bases = std::string("ab") + c + "o";
    EXPECT_EQ(run(bases.c_str()).substr(0, 5), "steps");
  }
  run("abco");
  EXPECT_EQ(run("abco"), "replay abco 0");
}

TEST_F(ReplayTest, OutputsThatAlternateGetAGraphEach) {
  for (int i = 0; i < 3; ++i) {
    const std::string first = run("abco"), second = run("abcp");
    if (i == 0) continue;
    EXPECT_EQ(first, "replay abco 0");
    EXPECT_EQ(second, "replay abcp 0");
  }
  EXPECT_EQ(replay_.stats().recorded, 2);
}

TEST_F(ReplayTest, AnotherArenaIsNeverReplayedInTheOldOne) {
  run("abco");
  EXPECT_EQ(run("abco"), "replay abco 0");
  EXPECT_EQ(run("zbco"), "steps zbco 0");
  EXPECT_EQ(run("zbco"), "replay zbco 0");
}

TEST_F(ReplayTest, ScratchMemoryThatHasMovedIsNotReplayed) {
  run("abco");
  run("abco");
  stream_.scratch(1 << 20);
  EXPECT_EQ(run("abco"), "steps abco 0");
}

TEST_F(ReplayTest, OutputsThatNeverRepeatAreNotRecordedForEver) {
  for (int i = 0; i < 26; ++i) {
    const std::string bases = std::string("abc") + static_cast<char>('a' + i);
    EXPECT_EQ(run(bases.c_str()).substr(0, 5), "steps");
  }
  EXPECT_EQ(replay_.stats().recorded, 0);
}

TEST_F(ReplayTest, WhatCannotBeRecordedRunsStepByStep) {
  recorder_.fails = true;
  run("abco");
  EXPECT_EQ(run("abco", 5), "steps abco 5");
  recorder_.fails = false;
  EXPECT_EQ(run("abco"), "steps abco 0");
  EXPECT_EQ(replay_.stats().recorded, 0);
}

TEST(OutputMemory, IsTakenAgainWhenTheCallerHasDroppedIt) {
  OutputMemory memory;
  const TensorSpec spec{{100}, DType::kFloat32};
  const void* first;
  {
    const NDArrayRef a = memory.take(0, spec, {});
    first = a->data();
    EXPECT_NE(memory.take(0, spec, {})->data(), first);
  }
  EXPECT_EQ(memory.take(0, spec, {})->data(), first);
  const NDArrayRef view = memory.take(0, spec, {})->reshaped({10, 10});
  EXPECT_NE(memory.take(0, spec, {})->data(), view->data());
  const size_t before = cpu_allocator().stats().in_use;
  OutputMemory::release_all();
  EXPECT_LT(cpu_allocator().stats().in_use, before);
}

}  // namespace
}  // namespace mxlite::graph
