// Tests chains with broadcast inputs and row ends in executables. The planner of the CPU is
// replaced by one that generates kernels, as CUDA's does, and runs them in the emulator. Arrays are
// larger than those of small graphs, which have no fused kernels.
#include "cpp/ops/pointwise/chain_source.h"
#include "cpp/ops/rtc/nvrtc.h"
#include "tests/cpp/fake_rtc/host_code.h"
#include "tests/cpp/graph_test_util.h"

namespace mxlite::graph::test {
namespace {

using mxlite::test::find_host_kernel;
using mxlite::test::HostLaunch;
using mxlite::test::load_host_code;
using pointwise::ChainCode;

int generated = 0;  // plans made

Plan plan_generated(PointwiseChain chain) {
  static std::string why_not;
  static const auto compiler = rtc::Nvrtc::load(FAKE_NVRTC, &why_not);
  MX_ASSERT(compiler);
  Plan plan;
  auto code = pointwise::generate_chain(chain, "chain", &why_not);
  if (!code) return plan;
  const auto image = compiler->compile(
      {pointwise::chain_prelude() + code->source, pointwise::chain_options(), {}}, "0.0");
  CodeLoader::Function const kernel = find_host_kernel(load_host_code(image.image), "chain");
  for (size_t v = 0; v < chain.num_inputs; ++v)
    plan.inputs.push_back({nullptr, chain.values[v].bytes()});
  for (int v : chain.outputs)
    plan.outputs.push_back({nullptr, chain.values[static_cast<size_t>(v)].bytes()});
  ++generated;
  plan.run = [code = *code, kernel](KernelContext&, std::span<void* const> in,
                                    std::span<void* const> out, void*) {
    const pointwise::ChainArguments arguments(code, in, out);
    HostLaunch(kernel, {{code.blocks(2), 1, 1}, {ChainCode::kThreads, 1, 1}, 0}, arguments.get())
        .run();
  };
  return plan;
}

class GeneratedChainTest : public testing::Test {
 protected:
  void SetUp() override {
    ops();  // registers the CPU's own planner
    set_chain_planner(DeviceType::kCPU,
                      {.plan = plan_generated, .takes_rows = [](Device) { return true; }});
    generated = 0;
  }
  static size_t instructions(const Graph& g, bool exact = false) {
    return Executable::compile(g, {}, exact)->program().main.size();
  }
};

TEST_F(GeneratedChainTest, BroadcastOperandsJoinTheChain) {
  Maker m;
  const ValueId x = m.input({16, 32, 64}), scale = m.input({32, 1}), shift = m.input({1, 1, 64});
  const ValueId y = m.op("broadcast_add", {m.op("broadcast_mul", {x, scale}), shift});
  const Graph g = m.finish({m.op("tanh", {y})});
  EXPECT_EQ(instructions(g), 1u);
  EXPECT_EQ(instructions(g, true), 1u);
  for (bool exact : {false, true}) expect_same_as_eager(g, 1, 2e-6, exact);
}

TEST_F(GeneratedChainTest, RepeatedValuesAreNotStored) {
  Maker m;
  const ValueId x = m.input({16, 32, 64}), column = m.input({16, 1, 1});
  const ValueId spread = m.op("broadcast_to", {column}, {{"shape", Shape{16, 32, 64}}});
  const Graph g = m.finish({m.op("tanh", {m.op("elemwise_mul", {spread, x})})});
  EXPECT_EQ(instructions(g, true), 1u);
  expect_same_as_eager(g, 6, 2e-6, true);
}

// One buffer is broadcast along different axes.
TEST_F(GeneratedChainTest, OneInputMayBeBroadcastInTwoWays) {
  Maker m;
  const ValueId x = m.input({192, 192}), row = m.input({1, 192});
  const ValueId column = m.op("reshape", {row}, {{"shape", Shape{192, 1}}});
  const ValueId y = m.op("broadcast_add", {m.op("broadcast_mul", {x, row}), column});
  const Graph g = m.finish({m.op("tanh", {y})});
  expect_same_as_eager(g, 2, 2e-6);
  EXPECT_GT(generated, 0);
}

TEST_F(GeneratedChainTest, RowsEndChainsThatNoGradientNeeds) {
  for (const char* name : {"sum", "mean", "softmax", "log_softmax"}) {
    SCOPED_TRACE(name);
    Maker m;
    const ValueId x = m.input({192, 120}), shift = m.input({120});
    const ValueId y = m.op("broadcast_add", {m.op("_mul_scalar", {x}, {{"scalar", 2.0}}), shift});
    const bool reduces = std::string_view(name) == "sum" || std::string_view(name) == "mean";
    const ValueId z = reduces ? m.op(name, {y}, {{"axis", Shape{1}}}) : m.op(name, {y});
    const Graph g = m.finish({z, m.op("exp", {z})});
    const ExecutableRef e = Executable::compile(g, {}, false);
    EXPECT_STREQ(e->program().main[0].kind_name(), "fused_pointwise") << e->program().text();
    EXPECT_EQ(e->program().main.size(), 2u) << e->program().text();
    EXPECT_EQ(instructions(g, true), 3u);  // the sum's order of additions is not the kernel's
    for (bool exact : {false, true}) expect_same_as_eager(g, 3, 2e-5, exact);
  }
}

// A value before the row end is an output, and takes the memory of an input of the chain.
TEST_F(GeneratedChainTest, ValuesBeforeARowEndAreStoredAfterTheLastRead) {
  Maker m;
  const ValueId x = m.input({192, 120}), w = m.input({120, 120});
  const ValueId a = m.op("dot", {x, w});  // its memory is the chain's to reuse
  const ValueId b = m.op("broadcast_add", {m.op("tanh", {a}), m.input({192, 1})});
  const ValueId c = m.op("softmax", {b});
  const Graph g = m.finish({c, m.op("dot", {b, w})});
  expect_same_as_eager(g, 4, 2e-5);
  EXPECT_GT(generated, 0);
}

TEST_F(GeneratedChainTest, FewLongRowsStayWithTheReduction) {
  Maker m;
  const ValueId x = m.input({4, 8192});
  const Graph g = m.finish({m.op("sum", {m.op("tanh", {m.op("exp", {x})})}, {{"axis", Shape{1}}})});
  EXPECT_EQ(instructions(g), 2u);
  expect_same_as_eager(g, 5, 2e-5);
}

TEST_F(GeneratedChainTest, WithoutGeneratedKernelsChainsStayFlat) {
  set_chain_planner(DeviceType::kCPU, {.plan = plan_generated});
  Maker m;
  const ValueId x = m.input({192, 192}), row = m.input({1, 192});
  const ValueId y = m.op("broadcast_add", {m.op("tanh", {x}), row});
  const Graph g = m.finish({m.op("sum", {m.op("exp", {y})}, {{"axis", Shape{1}}})});
  EXPECT_EQ(instructions(g), 4u);
}

}  // namespace
}  // namespace mxlite::graph::test
