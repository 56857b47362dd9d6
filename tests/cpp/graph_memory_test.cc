// Tests the memory plans of random graphs with a shadow memory that records the writers, and the
// resulting values.
#include <map>

#include "cpp/graph/run/packing.h"
#include "tests/cpp/graph_test_util.h"

namespace mxlite::graph::test {
namespace {

// Records which buffer (as the lowering made it, before sharing) each piece of memory holds.
class ShadowMemory {
 public:
  explicit ShadowMemory(const Program& p) : program_(p) {
    auto& block = memory_[{Place::kDonated, -1}];
    block.assign(p.donated_bytes, -1);
    for (size_t i = 0; i < p.buffers.size(); ++i)
      if (const Saved at = donated(static_cast<int32_t>(i)))
        std::fill_n(block.begin() + static_cast<std::ptrdiff_t>(at.offset), p.buffers[i].bytes,
                    static_cast<int32_t>(i));
  }
  // Returns where a donated input lies in the block of the saved values.
  Saved donated(int32_t buffer) const {
    const Buffer& b = program_.root(buffer);
    return b.place == Place::kInput ? program_.donated[static_cast<size_t>(b.index)] : Saved{};
  }

  void write(int32_t buffer) {
    const Buffer& b = program_.root(buffer);
    auto& bytes = memory_[{b.place, place_index(b)}];
    const size_t end = b.offset + program_.buffers[static_cast<size_t>(buffer)].bytes;
    ASSERT_LE(end, limit(b));
    if (bytes.size() < end) bytes.resize(end, -1);
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(b.offset),
              bytes.begin() + static_cast<std::ptrdiff_t>(end), buffer);
  }
  void expect_holds(int32_t buffer, const std::string& reader) {
    const Buffer& b = program_.root(buffer);
    const Saved at = donated(buffer);
    if ((b.place == Place::kInput && !at) || b.place == Place::kParameter ||
        b.place == Place::kConstant)
      return;
    const auto& bytes = memory_[{at ? Place::kDonated : b.place, at ? -1 : place_index(b)}];
    const size_t begin = at ? at.offset : b.offset;
    const size_t end = begin + program_.buffers[static_cast<size_t>(buffer)].bytes;
    ASSERT_LE(end, bytes.size()) << reader;
    for (size_t i = begin; i < end; ++i)
      ASSERT_EQ(bytes[i], buffer) << reader << " reads buffer " << buffer << '\n'
                                  << program_.text();
  }

 private:
  // Buffers with equal indices lie in one piece of memory.
  static int place_index(const Buffer& b) {
    return b.place == Place::kOutput || b.place == Place::kPacked ? b.index : -1;
  }
  size_t limit(const Buffer& b) const {
    if (b.place == Place::kArena) return program_.arena_bytes;
    if (b.place == Place::kDonated) return program_.donated_bytes;
    if (b.place != Place::kPacked) return b.bytes;
    return b.index < 0 ? program_.packed_bytes
                       : program_.packings[static_cast<size_t>(b.index)]->program.packed_bytes;
  }
  const Program& program_;
  std::map<std::pair<Place, int>, std::vector<int32_t>> memory_;
};

void check_steps(const Program& p, const std::vector<Instruction>& steps, ShadowMemory& memory) {
  for (const Instruction& step : steps) {
    for (const Operand& o : step.inputs) memory.expect_holds(o.buffer, step.name);
    for (const InplacePair pair : step.must_share)
      ASSERT_EQ(p.root_id(step.inputs[static_cast<size_t>(pair.input)].buffer),
                p.root_id(step.outputs[static_cast<size_t>(pair.output)].buffer));
    for (const Operand& o : step.outputs) {
      const Buffer& b = p.root(o.buffer);
      ASSERT_TRUE(b.place == Place::kArena || b.place == Place::kPacked ||
                  b.place == Place::kOutput || b.place == Place::kDonated);
      ASSERT_EQ(b.offset % 64, 0u);
      memory.write(o.buffer);
    }
  }
}

void check_plan(const Program& p) {
  ASSERT_TRUE(p.prologue.empty());
  for (const auto& packing : p.packings) {
    const Program& part = packing->program;
    ShadowMemory memory(part);
    check_steps(part, part.prologue, memory);
    for (size_t b = 0; b < part.buffers.size(); ++b)
      if (part.buffers[b].place == Place::kPacked)
        memory.expect_holds(static_cast<int32_t>(b), "the main part");
  }
  ShadowMemory memory(p);
  for (size_t b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].place == Place::kPacked) memory.write(static_cast<int32_t>(b));
  check_steps(p, p.main, memory);
  for (const Program::Output& o : p.outputs) {
    ASSERT_EQ(p.root(o.buffer).place, Place::kOutput);
    memory.expect_holds(o.buffer, "the caller");
  }
}

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : gen_(seed) {}

  Graph make(int num_ops) {
    values_ = {maker_.input(kShape), maker_.input(kShape)};
    weights_ = {maker_.parameter(kShape), maker_.parameter({16})};
    for (int i = 0; i < num_ops; ++i) values_.push_back(add_op());
    std::vector<ValueId> outputs{values_.back()};
    while (pick(3)) outputs.push_back(any());
    if (pick(4) == 0) outputs.push_back(weights_[0]);
    return maker_.finish(outputs);
  }

 private:
  static inline const Shape kShape{2, 16, 6, 6};

  int pick(int n) { return static_cast<int>(gen_() % static_cast<uint32_t>(n)); }
  ValueId any() { return values_[static_cast<size_t>(pick(static_cast<int>(values_.size())))]; }
  ValueId recent() {
    const int n = static_cast<int>(values_.size());
    return values_[static_cast<size_t>(n - 1 - pick(std::min(n, 3)))];
  }

  ValueId add_op() {
    Maker& m = maker_;
    switch (pick(12)) {
      case 0:
        return m.op("tanh", {recent()});
      case 1:
        return m.op("Activation", {recent()}, {{"act_type", std::string("relu")}});
      case 2:
        return m.op("broadcast_add", {recent(), any()});
      case 3:
        return m.op("broadcast_mul", {m.op("_mul_scalar", {recent()}, {{"scalar", 0.5}}), any()});
      case 4:
        return m.conv(m.op("_mul_scalar", {recent()}, {{"scalar", 0.02}}), 16, 3, pick(2));
      case 5:
        return m.batch_norm(m.conv(m.op("tanh", {any()}), 16, 1));
      case 6: {  // there and back
        const ValueId flat = m.op("_reshape_to", {recent()}, {{"shape", Shape{2, 576}}});
        const ValueId half = m.op("_mul_scalar", {flat}, {{"scalar", 0.5}});
        return m.op("_reshape_to", {half}, {{"shape", kShape}});
      }
      case 7: {
        const ValueId both = m.op("Concat", {recent(), any()}, {{"dim", int64_t{1}}});
        return m.op("slice_axis", {both},
                    {{"axis", int64_t{1}}, {"begin", int64_t{8}}, {"end", int64_t{24}}});
      }
      case 8: {  // a residual block
        const ValueId x = recent();
        const ValueId y = m.conv(m.op("tanh", {x}), 16, 3);
        return m.op("Activation", {m.op("elemwise_add", {y, x})},
                    {{"act_type", std::string("relu")}});
      }
      case 9:  // parameters only
        return m.op("broadcast_add", {recent(), m.op("tanh", {weights_[0]})});
      case 10: {
        const ValueId row = m.op("_reshape_to", {weights_[1]}, {{"shape", Shape{1, 16, 1, 1}}});
        return m.op("broadcast_mul", {m.op("tanh", {recent()}), row});
      }
      default: {
        const ValueId t =
            m.op("transpose", {m.op("tanh", {recent()})}, {{"axes", Shape{0, 1, 3, 2}}});
        return m.op("broadcast_add", {t, recent()});
      }
    }
  }

  std::mt19937 gen_;
  Maker maker_;
  std::vector<ValueId> values_, weights_;
};

TEST(MemoryPlan, RandomGraphsKeepEveryLiveValue) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Graph traced = RandomGraph(seed).make(1 + static_cast<int>(seed % 40));
    for (bool exact : {false, true}) {
      const ExecutableRef e = Executable::compile(traced, {}, exact);
      check_plan(e->program());
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
    }
  }
}

TEST(MemoryPlan, DonatedInputsAreUsedOnceTheyAreRead) {
  size_t saved = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Graph traced = RandomGraph(seed).make(1 + static_cast<int>(seed % 40));
    constexpr size_t kBytes = 2 * 16 * 6 * 6 * 4;
    for (const std::vector<Saved>& donated :
         {std::vector<Saved>{{0}, {kBytes}}, {{}, {64}}, {{kBytes + 64}, {}}}) {
      Border border;
      border.donated = donated;
      border.donated_bytes = 2 * kBytes + 64;
      const ExecutableRef with = Executable::compile(traced, {}, /*exact=*/true, border);
      const ExecutableRef without = Executable::compile(traced, {}, /*exact=*/true);
      check_plan(with->program());
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
      EXPECT_LE(with->program().arena_bytes, without->program().arena_bytes) << "seed " << seed;
      saved += without->program().arena_bytes - with->program().arena_bytes;
    }
  }
  EXPECT_GT(saved, 0u);
}

TEST(Executable, RandomGraphsGiveTheEagerValues) {
  for (uint32_t seed = 0; seed < 120; ++seed) {
    const Graph traced = RandomGraph(seed).make(1 + static_cast<int>(seed % 25));
    expect_same_as_eager(traced, seed, 2e-4, /*exact=*/seed % 2);
    if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << '\n' << traced.text();
  }
}

TEST(MemoryPlan, AChainNeedsTwoBuffersAndInPlaceOne) {
  Maker m;
  ValueId v = m.input({64, 1024});
  for (int i = 0; i < 10; ++i)
    v = m.op("transpose", {v}, {{"axes", Shape{1, 0}}});  // cannot work in place
  const ExecutableRef two = Executable::compile(m.finish({m.op("tanh", {v})}), {}, false);
  EXPECT_EQ(two->program().arena_bytes, 2u * 64 * 1024 * 4);

  Maker n;
  v = n.op("transpose", {n.input({64, 1024})}, {{"axes", Shape{1, 0}}});
  for (int i = 0; i < 10; ++i) v = n.op("tanh", {v});
  const ExecutableRef one = Executable::compile(n.finish({v}), {}, false);
  EXPECT_EQ(one->program().arena_bytes, 0u);  // all values lie in the output's memory
}

TEST(FusePointwise, NeighboursBecomeOneStepAndOnlyWhatIsReadOutsideIsKept) {
  Maker m;
  const ValueId x = m.input({64, 1024}), y = m.input({64, 1024}), one = m.input({1});
  ValueId v = m.op("tanh", {m.op("broadcast_add", {x, y})});
  const ValueId kept = m.op("broadcast_mul", {v, one});
  v = m.op("sigmoid", {m.op("broadcast_sub", {kept, x})});
  const ValueId sum = m.op("sum", {kept}, {{"axis", Shape{1}}});
  const Graph graph = m.finish({v, sum});
  const ExecutableRef e = Executable::compile(graph, {}, false);
  ASSERT_EQ(e->program().main.size(), 2u) << e->program().text();
  EXPECT_STREQ(e->program().main[0].kind_name(), "fused_pointwise");
  EXPECT_EQ(e->program().main[0].outputs.size(), 2u);
  EXPECT_EQ(e->program().arena_bytes, 64u * 1024 * 4);
  for (bool exact : {false, true}) expect_same_as_eager(graph, 3, 1e-6, exact);
}

TEST(FusePointwise, OtherShapesAndUnrelatedValuesStayApart) {
  Maker m;
  const ValueId x = m.input({64, 1024}), y = m.input({64, 1024}), row = m.input({1, 1024});
  const ValueId a = m.op("tanh", {x}), b = m.op("tanh", {y});
  const ValueId c = m.op("broadcast_add", {b, row});
  const Graph graph = m.finish({a, c});
  const ExecutableRef e = Executable::compile(graph, {}, false);
  EXPECT_EQ(e->program().main.size(), 3u) << e->program().text();
  expect_same_as_eager(graph, 4, 1e-6, false);
}

TEST(MemoryPlan, SmallBuffersFillGaps) {
  // Two large values are never alive together with each other, the small ones live throughout.
  Maker m;
  const ValueId x = m.input({1024});
  std::vector<ValueId> small;
  for (int i = 0; i < 4; ++i)
    small.push_back(m.op("_plus_scalar", {x}, {{"scalar", static_cast<double>(i)}}));
  ValueId sum = x;
  for (int i = 0; i < 4; ++i) {
    ValueId big = m.op("tile", {small[static_cast<size_t>(i)]}, {{"reps", Shape{1000}}});
    big = m.op("slice_axis", {big},
               {{"axis", int64_t{0}}, {"begin", int64_t{0}}, {"end", int64_t{1024}}});
    sum = m.op("broadcast_add", {sum, big});
  }
  const ExecutableRef e = Executable::compile(m.finish({sum}), {}, false);
  EXPECT_LE(e->program().arena_bytes, 1024u * 4 * 1000 + 1024u * 4 * 6);
}

// Packed weights stay between runs of a small batch; a large one has them packed in every run, with
// the BatchNorm that is folded into them.
TEST(MemoryPlan, LargeBatchesKeepNoPackedWeights) {
  for (const int64_t kernel : {1, 3}) {
    const size_t weight = 256u * 256u * static_cast<size_t>(kernel * kernel) * sizeof(float);
    const auto packed_bytes = [&](int64_t batch) {
      Maker m;
      const ValueId x = m.input({batch, 256, 16, 16});
      const Graph graph = m.finish({m.conv(m.batch_norm(m.conv(x, 256, kernel)), 256, kernel)});
      expect_same_as_eager(graph, 4);
      const ExecutableRef executable = Executable::compile(graph, {}, false);
      size_t bytes = 0;
      for (const auto& part : executable->program().packings) bytes += part->program.packed_bytes;
      return bytes;
    };
    EXPECT_GE(packed_bytes(1), 2 * weight);
    EXPECT_LT(packed_bytes(16), weight / 8);
  }
}

}  // namespace
}  // namespace mxlite::graph::test
