// Tests backward with a task for each segment: values stay the same, and the right segment finishes
// each output.
#include <algorithm>

#include "cpp/graph/run/launch.h"
#include "tests/cpp/graph_test_util.h"

namespace mxlite::graph::test {
namespace {

constexpr int64_t kSide = 512;  // arrays of 1 MiB

// Returns a chain of products. Each of them is an output.
Graph chain(int length) {
  Maker m;
  std::vector<ValueId> outputs;
  ValueId value = m.input(Shape{kSide, kSide});
  for (int i = 0; i < length; ++i) {
    value = m.op("dot", {value, m.parameter(Shape{kSide, kSide})});
    outputs.push_back(value);
  }
  return m.finish(outputs);
}

class Segments : public testing::Test {
 protected:
  void SetUp() override { set_segments(true); }
  void TearDown() override { set_segments(false); }

  std::mt19937 gen_{7};
  NDArrays arrays(const std::vector<TensorSpec>& specs) {
    NDArrays list;
    for (const TensorSpec& s : specs) list.push_back(random_array(s, gen_, -0.1, 0.1));
    return list;
  }
};

void expect_equal(const NDArrayRef& a, const NDArrayRef& b) {
  a->wait_to_read();
  b->wait_to_read();
  ASSERT_EQ(a->spec(), b->spec());
  EXPECT_EQ(std::memcmp(a->data(), b->data(), a->spec().bytes()), 0);
}

TEST_F(Segments, OutputsOfAChainAreFinishedOneAfterTheOther) {
  const auto executable = Executable::compile(chain(6), Device{}, true);
  const std::vector<size_t> finished = finishing_instructions(executable->program());
  ASSERT_EQ(finished.size(), 6u);
  // The last product reads the one before it, so both are finished by the same instruction.
  EXPECT_TRUE(std::is_sorted(finished.begin(), finished.end()));
  EXPECT_LT(finished[0], finished[2]);
  EXPECT_LT(finished[2], finished[4]);
  EXPECT_LT(finished[4], executable->program().main.size());
}

TEST_F(Segments, EachOutputIsWrittenByOnePieceAndNoneIsForgotten) {
  const auto executable = Executable::compile(chain(6), Device{}, true);
  const Program& program = executable->program();
  const std::vector<ProgramSegment> segments = cut_into_segments(program, 6);
  EXPECT_EQ(segments.size(), 5u);  // a value is finished when the next product has read it
  size_t next = 0;
  std::vector<int> finished;
  for (const ProgramSegment& segment : segments) {
    EXPECT_EQ(segment.first, next);
    EXPECT_LT(segment.first, segment.last);
    next = segment.last;
    finished.insert(finished.end(), segment.overwrites.begin(), segment.overwrites.end());
  }
  EXPECT_EQ(next, program.main.size());
  std::sort(finished.begin(), finished.end());
  EXPECT_EQ(finished, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  // A later product reads the product before it.
  EXPECT_FALSE(segments[1].reads.empty() && segments[2].reads.empty());
}

TEST_F(Segments, ValuesAreThoseOfOneTask) {
  const auto executable = Executable::compile(chain(5), Device{}, true);
  const NDArrays inputs = arrays(executable->program().input_specs);
  const NDArrays parameters = arrays(executable->program().parameter_specs);
  Executable::LaunchArgs call{inputs, parameters};
  const NDArrays whole = executable->launch(call);
  for (int round = 0; round < 3; ++round) {
    const NDArrays parts = launch_backward(*executable, call);
    ASSERT_EQ(parts.size(), whole.size());
    for (size_t i = 0; i < parts.size(); ++i) expect_equal(parts[i], whole[i]);
  }
}

TEST_F(Segments, OutputsGoIntoGivenArraysInTheOrderOfTheirUsers) {
  const auto executable = Executable::compile(chain(4), Device{}, true);
  const NDArrays inputs = arrays(executable->program().input_specs);
  const NDArrays parameters = arrays(executable->program().parameter_specs);
  NDArrays into;
  for (int i = 0; i < 4; ++i)
    into.push_back(NDArray::empty(executable->program().outputs[0].spec, {}));
  Executable::LaunchArgs call{inputs, parameters};
  const NDArrays expected = executable->launch(call);
  call.into = into;
  std::vector<NDArrayRef> copies;
  for (int round = 0; round < 4; ++round) {
    launch_backward(*executable, call);
    // These reads are queued before the segments of the next round, which write the same memory.
    for (const NDArrayRef& array : into) {
      copies.push_back(NDArray::empty(array->spec(), {}));
      copy_to(array, copies.back());
    }
  }
  for (size_t i = 0; i < copies.size(); ++i) expect_equal(copies[i], expected[i % 4]);
}

TEST_F(Segments, LittleWorkStaysOneTask) {
  Maker m;
  const ValueId x = m.input(Shape{64, 64});
  const ValueId y = m.op("dot", {x, m.parameter(Shape{64, 64})});
  const ValueId z = m.op("dot", {y, m.parameter(Shape{64, 64})});
  const auto executable = Executable::compile(m.finish({y, z}), Device{}, true);
  EXPECT_EQ(cut_into_segments(executable->program(), 2).size(), 1u);
}

TEST_F(Segments, AFailureReachesTheOutputsOfLaterSegments) {
  const auto executable = Executable::compile(chain(3), Device{}, true);
  NDArrays inputs = arrays(executable->program().input_specs);
  const NDArrays parameters = arrays(executable->program().parameter_specs);
  engine::Var* const broken = &inputs[0]->storage()->var();
  engine::Engine::get().push_fn("broken", {{}, {&broken, 1}, {}}, {},
                                [] { fail(ErrorKind::kValue, "broken input"); });
  Executable::LaunchArgs call{inputs, parameters};
  for (const NDArrayRef& output : launch_backward(*executable, call))
    EXPECT_THROW(output->wait_to_read(), Error);
}

}  // namespace
}  // namespace mxlite::graph::test
