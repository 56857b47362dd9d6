// Tests when an executable on a GPU runs step by step, when it is recorded, and which memory it
// uses.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "cpp/core/scratch_shortage.h"
#include "cpp/graph/run/replay.h"
#include "tests/cpp/fake_stream.h"

namespace mxlite::graph {
namespace {

constexpr uint32_t kOutput = 3, kArena = 0, kInput = 1;  // slots: arena, two inputs, output
using Bases = std::array<void*, 4>;

// Does the work of a run, which copies the first input to the output.
void copy_values(const Bases& bases, Stream& stream) {
  stream.copy(bases[kOutput], bases[kInput], 8);
}

// A graph that holds the addresses of the time when it was recorded.
struct FakeGraph final : DeviceGraph {
  explicit FakeGraph(std::vector<std::string>& l) : log(l) {}
  void launch(Stream& stream, RandomState random) override {
    log.push_back(str("replay ", text, random.offset));
    copy_values(bases, stream);
  }
  std::vector<std::string>& log;
  std::string text;
  Bases bases;
};

struct FakeRecorder final : GraphRecorder {
  std::unique_ptr<DeviceGraph> record(Stream& stream, const FillFn& fill) override {
    if (fails) fail(ErrorKind::kDevice, "this kernel cannot be recorded");
    if (lacks_scratch) throw ScratchShortage("64 bytes of scratch memory asked for");
    auto graph = std::make_unique<FakeGraph>(log);
    static const RandomState on_device;
    fill(stream, &on_device);
    graph->text = log.back().substr(std::string("record ").size());
    graph->bases = recorded;
    log.pop_back();
    return graph;
  }
  std::vector<std::string> log;
  Bases recorded;
  bool fails = false, lacks_scratch = false;
};

constexpr size_t kLarge = size_t{1} << 30;  // is never copied

class ReplayTest : public testing::Test {
 protected:
  explicit ReplayTest(size_t second_bytes = 8, size_t output_bytes = 8)
      : replay_(
            "net",
            [this](size_t bytes) {
              ++allocations_;
              if (allocations_left_-- <= 0) fail(ErrorKind::kOutOfMemory, "no memory");
              return Storage::allocate({}, bytes);
            },
            {{kInput, 8}, {kInput + 1, second_bytes}, {kOutput, output_bytes, true}},
            [this](std::span<void* const> b, RandomState random, Stream& stream,
                   const RandomState* d) {
              recorder_.log.push_back(str(d ? "record " : "steps ", name(b[kArena]),
                                          name(b[kInput]), name(b[kInput + 1]), name(b[kOutput]),
                                          ' ', d ? "" : str(random.offset)));
              const Bases bases = {b[0], b[1], b[2], b[3]};
              if (d)
                recorder_.recorded = bases;
              else
                copy_values(bases, stream);
            }) {
    set_graph_recorder(&recorder_);
  }
  ~ReplayTest() override { set_graph_recorder(nullptr); }

  // Memory has one-letter names; * is memory that the replay has allocated.
  char memory_[26][8] = {};
  char* at(char letter) { return memory_[letter - 'a']; }
  std::string name(void* p) {
    for (char c = 'a'; c <= 'z'; ++c)
      if (p == at(c)) return std::string(1, c);
    return "*";
  }
  std::string run(const std::string& letters, uint64_t offset = 0) {
    char* const input = at(letters[1]);
    std::memcpy(input, &++runs_, sizeof runs_);
    Bases bases = {at(letters[0]), input, at(letters[2]), at(letters[3])};
    replay_.run(bases, {0, offset}, stream_, kept_);
    stream_.synchronize();
    EXPECT_EQ(std::memcmp(at(letters[3]), input, 8), 0) << letters;
    return recorder_.log.back();
  }

  std::vector<uint8_t> kept_;  // by slot
  uint64_t runs_ = 0;
  int allocations_ = 0, allocations_left_ = 100;
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
  EXPECT_EQ(run("adco"), "steps a*co 0");  // the first run with the copy
  EXPECT_EQ(run("aeco"), "replay a*co 0");
  EXPECT_EQ(run("abco"), "replay a*co 0");
  EXPECT_EQ(replay_.stats().recorded, 1);
  EXPECT_EQ(replay_.stats().copied_arrays, 1);
  EXPECT_EQ(run("abdo"), "steps a**o 0");  // the second input moves for the first time
  EXPECT_EQ(run("abeo"), "replay a**o 0");
  EXPECT_EQ(run("abfo"), "replay a**o 0");
  EXPECT_EQ(replay_.stats().recorded, 2);
}

TEST_F(ReplayTest, OutputsThatMoveAreCopiedFromAPlaceOfTheirOwn) {
  run("abco");
  EXPECT_EQ(run("abcp"), "steps abc* 0");  // the first run with the copy
  EXPECT_EQ(run("abcq"), "replay abc* 0");
  EXPECT_EQ(run("abco"), "replay abc* 0");
  EXPECT_EQ(replay_.stats().recorded, 1);
  EXPECT_EQ(replay_.stats().copied_arrays, 1);
}

TEST_F(ReplayTest, ARunStepByStepWritesCopiedOutputsDirectly) {
  run("abco");
  EXPECT_EQ(run("abcp"), "steps abc* 0");
  EXPECT_EQ(run("abcp"), "replay abc* 0");
  EXPECT_EQ(run("zbcq"), "steps zbcq 0");  // another arena
  EXPECT_EQ(run("zbcr"), "replay zbc* 0");
}

class ReplayOfKeptOutputTest : public ReplayTest {
 protected:
  ReplayOfKeptOutputTest() { kept_ = {0, 0, 0, 1}; }
};

TEST_F(ReplayOfKeptOutputTest, AnOutputThatMovesOnceIsWrittenWhereItIs) {
  run("abco");
  EXPECT_EQ(run("abco"), "replay abco 0");
  EXPECT_EQ(run("abcp"), "steps abcp 0");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run("abcp"), "replay abcp 0");
  EXPECT_EQ(replay_.stats().recorded, 2);
  EXPECT_EQ(replay_.stats().copied_arrays, 0);
}

// A gradient moves into a bucket, into another one, and then into one of each size.
TEST_F(ReplayOfKeptOutputTest, ManyMovesWithRunsBetweenThemNeedNoCopy) {
  run("abco");
  run("abcp");
  for (char place = 'q'; place < 'z'; ++place) {
    EXPECT_EQ(run({'a', 'b', 'c', place}).substr(0, 5), "steps") << place;
    for (int i = 0; i < 11; ++i)
      EXPECT_EQ(run({'a', 'b', 'c', place}), str("replay abc", place, " 0"));
  }
  EXPECT_EQ(replay_.stats().copied_arrays, 0);
}

TEST_F(ReplayOfKeptOutputTest, InputsBesideItAreCopiedAsBefore) {
  run("abco");
  EXPECT_EQ(run("adcp"), "steps adcp 0");  // the output has moved
  EXPECT_EQ(run("aecp"), "steps a*cp 0");  // the first run with the copy of the input
  EXPECT_EQ(run("afcp"), "replay a*cp 0");
  EXPECT_EQ(replay_.stats().copied_arrays, 1);
}

TEST_F(ReplayOfKeptOutputTest, AnOutputThatMovesInEveryRunIsCopied) {
  run("abco");
  EXPECT_EQ(run("abcp"), "steps abcp 0");
  EXPECT_EQ(run("abcq"), "steps abcq 0");
  EXPECT_EQ(run("abcr"), "steps abc* 0");  // the third move
  EXPECT_EQ(run("abcs"), "replay abc* 0");
  EXPECT_EQ(run("abco"), "replay abc* 0");
  EXPECT_EQ(replay_.stats().copied_arrays, 1);
}

class ReplayOfLargeInputTest : public ReplayTest {
 protected:
  ReplayOfLargeInputTest() : ReplayTest(kLarge) {}
};

TEST_F(ReplayOfLargeInputTest, EachAddressGetsAGraphWhenItComesAgain) {
  EXPECT_EQ(run("abco"), "steps abco 0");
  EXPECT_EQ(run("abdo"), "steps abdo 0");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run("abco"), "replay abco 0");
    EXPECT_EQ(run("abdo"), "replay abdo 0");
  }
  EXPECT_EQ(replay_.stats().recorded, 2);
  EXPECT_EQ(replay_.stats().copied_arrays, 0);
}

TEST_F(ReplayOfLargeInputTest, SmallInputsBesideItAreCopied) {
  run("abco");
  EXPECT_EQ(run("adco"), "steps a*co 0");
  EXPECT_EQ(run("adco"), "replay a*co 0");
  // The large input has moved, so another graph is recorded.
  EXPECT_EQ(run("aedo"), "steps a*do 0");
  EXPECT_EQ(run("afdo"), "replay a*do 0");
  EXPECT_EQ(run("agco"), "replay a*co 0");
  EXPECT_EQ(replay_.stats().copied_arrays, 1);
}

// Saved values alternate between two blocks, other arrays are elsewhere in every run.
TEST_F(ReplayOfLargeInputTest, TwoBlocksHaveAGraphEachWhateverElseMoves) {
  for (int i = 0; i < 50; ++i) {
    const char input = static_cast<char>('e' + i % 7), output = static_cast<char>('o' + i % 11);
    const std::string did = run({'a', input, i % 2 ? 'c' : 'd', output});
    if (i < 3) continue;  // the first run with each block, then with copies
    EXPECT_EQ(did, i % 2 ? "replay a*c* 0" : "replay a*d* 0");
  }
  EXPECT_EQ(replay_.stats().recorded, 2);
  EXPECT_EQ(replay_.stats().replayed, 47);
}

TEST_F(ReplayOfLargeInputTest, ManyAddressesDoNotEndTheGraphsOfSmallInputs) {
  for (char c = 'f'; c < 'z'; ++c) EXPECT_EQ(run({'a', 'b', c, 'o'}).substr(0, 5), "steps");
  run("abco");
  EXPECT_EQ(run("abco"), "replay abco 0");
}

class ReplayOfLargeOutputTest : public ReplayTest {
 protected:
  ReplayOfLargeOutputTest() : ReplayTest(8, kLarge) {}
};

TEST_F(ReplayOfLargeOutputTest, OutputsThatAlternateGetAGraphEach) {
  for (int i = 0; i < 3; ++i) {
    const std::string first = run("abco"), second = run("abcp");
    if (i == 0) continue;
    EXPECT_EQ(first, "replay abco 0");
    EXPECT_EQ(second, "replay abcp 0");
  }
  EXPECT_EQ(replay_.stats().recorded, 2);
}

TEST_F(ReplayOfLargeOutputTest, OutputsThatNeverRepeatAreNotRecorded) {
  for (char c = 'd'; c <= 'z'; ++c) EXPECT_EQ(run({'a', 'b', 'c', c}).substr(0, 5), "steps");
  EXPECT_EQ(replay_.stats().recorded, 0);
}

// Addresses that keep changing are recorded only as often as replays pay for it.
TEST_F(ReplayOfLargeOutputTest, RecordingPausesUntilThereAreReplays) {
  std::string did;
  char last = 'd';
  testing::internal::CaptureStderr();
  for (; last <= 'z'; ++last) {
    run({'a', 'b', 'c', last});
    did = run({'a', 'b', 'c', last});
    if (did.starts_with("steps")) break;
  }
  EXPECT_EQ(replay_.stats().recorded, 18);  // 16 at first, and two more for 18 replays
  run({'a', 'b', 'c', last});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "mxlite: net runs without CUDA graphs: its memory changes at each run\n");
  ASSERT_TRUE(did.starts_with("steps"));
  for (int i = 0; i < 8; ++i)
    EXPECT_TRUE(run({'a', 'b', 'c', static_cast<char>(last - 1)}).starts_with("replay"));
  EXPECT_TRUE(run({'a', 'b', 'c', last}).starts_with("replay"));
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

TEST_F(ReplayTest, WhatCannotBeRecordedRunsStepByStep) {
  recorder_.fails = true;
  run("abco");
  EXPECT_EQ(run("abco", 5), "steps abco 5");
  recorder_.fails = false;
  EXPECT_EQ(run("abco"), "steps abco 0");
  EXPECT_EQ(replay_.stats().recorded, 0);
}

TEST_F(ReplayTest, ARecordingThatLacksScratchMemoryIsTriedAgain) {
  run("abco");
  recorder_.lacks_scratch = true;
  EXPECT_EQ(run("abco"), "steps abco 0");
  recorder_.lacks_scratch = false;
  EXPECT_EQ(run("abco"), "replay abco 0");
}

TEST_F(ReplayTest, ScratchMemoryThatNeverSufficesEndsTheTries) {
  recorder_.lacks_scratch = true;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run("abco"), "steps abco 0");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "mxlite: net runs without CUDA graphs: 64 bytes of scratch memory asked for\n");
  recorder_.lacks_scratch = false;
  EXPECT_EQ(run("abco"), "steps abco 0");
}

TEST_F(ReplayTest, AfterOneAllocationWithoutMemoryNoOtherIsTried) {
  allocations_left_ = 0;
  run("abco");
  for (char c = 'd'; c < 'z'; ++c) EXPECT_EQ(run({'a', c, 'c', c}).substr(0, 5), "steps");
  EXPECT_EQ(allocations_, 1);
  EXPECT_EQ(run("abco"), "steps abco 0");
  EXPECT_EQ(run("abco"), "replay abco 0");
  EXPECT_EQ(replay_.stats().copied_arrays, 0);
}

TEST_F(ReplayTest, CopiesThatHaveMemoryStayWhereThereIsNoMore) {
  allocations_left_ = 1;
  run("abco");
  EXPECT_EQ(run("adco"), "steps a*co 0");
  for (char c = 'd'; c < 'z'; ++c) EXPECT_EQ(run({'a', c, c, 'o'}).substr(0, 5), "steps");
  EXPECT_EQ(allocations_, 2);
  run("abco");
  EXPECT_EQ(run("adco"), "replay a*co 0");
}

// A stream that runs nothing, so that arrays need no memory.
class IdleStream final : public Stream {
 public:
  Device device() const override { return {DeviceType::kCUDA, 0}; }
  void enter() override {}
  void wait_for(Stream&) override {}
  void synchronize() override {}
  void copy(void*, const void*, size_t) override {}
  void* scratch(size_t) override { return nullptr; }
  std::unique_ptr<Attachment>& attachment() override { return attachment_; }

 private:
  std::unique_ptr<Attachment> attachment_;
};

TEST(ReplayMemory, IsLimitedForTheWholeProcess) {
  FakeRecorder recorder;
  set_graph_recorder(&recorder);
  IdleStream stream;
  char memory[2];
  std::vector<std::unique_ptr<Replay>> objects;
  const auto copies_of_another = [&] {
    objects.push_back(std::make_unique<Replay>(
        "net", [&](size_t bytes) { return Storage::wrap({}, memory, bytes, [] {}); },
        std::vector<Replay::CallerArray>{{0, size_t{256} << 20, true}},
        [](std::span<void* const>, RandomState, Stream&, const RandomState*) {}));
    for (char& address : memory) {
      void* base = &address;
      objects.back()->run({&base, 1}, {}, stream);
    }
    return objects.back()->stats().copied_arrays;
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(copies_of_another(), 1) << i;
  EXPECT_EQ(copies_of_another(), 0);  // 1 GiB is in use
  objects.erase(objects.begin());
  EXPECT_EQ(copies_of_another(), 1);
  set_graph_recorder(nullptr);
}

}  // namespace
}  // namespace mxlite::graph
