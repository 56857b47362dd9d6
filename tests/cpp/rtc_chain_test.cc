// Tests generated kernels of pointwise chains. They are compiled for the host, run in the emulator
// and compared with the operators' own CPU kernels. NVRTC compiles them too, which needs no GPU.
#include <cstdlib>
#include <cstring>

#include "cpp/ops/pointwise/chain_source.h"
#include "cpp/ops/rtc/nvrtc.h"
#include "tests/cpp/chain_maker.h"
#include "tests/cpp/errors.h"
#include "tests/cpp/fake_rtc/host_code.h"

namespace mxlite::test {
namespace {

using pointwise::ChainCode;

// Chains that are compiled together, because the compiler takes longer for the headers than for a
// kernel.
class ChainBatch {
 public:
  // Each result is a sum of `terms` numbers.
  void add(ChainMaker chain, int64_t terms = 1) {
    std::string why_not;
    const std::string kernel = str("chain", chains_.size());
    auto code = pointwise::generate_chain(chain.chain, kernel, &why_not);
    ASSERT_TRUE(code) << why_not;
    source_ += code->source;
    chains_.push_back({std::move(chain), *std::move(code), terms});
  }
  std::string source() const { return pointwise::chain_prelude() + source_; }

  void expect_same_on_host() const {
    std::string why_not;
    const auto compiler = rtc::Nvrtc::load(FAKE_NVRTC, &why_not);
    ASSERT_TRUE(compiler) << why_not;
    const rtc::CompiledCode compiled =
        compiler->compile({source(), pointwise::chain_options(), {}}, "0.0");
    CodeLoader::Module const module = load_host_code(compiled.image);
    for (const Item& item : chains_) {
      CodeLoader::Function const kernel = find_host_kernel(module, item.code.kernel);
      ASSERT_TRUE(kernel);
      SCOPED_TRACE(item.code.source);
      const LaunchGrid grid{{item.code.blocks(3), 1, 1}, {ChainCode::kThreads, 1, 1}, 0};
      const auto launch = [&](const auto& in, const auto& out) {
        const pointwise::ChainArguments arguments(item.code, in, out);
        HostLaunch(kernel, grid, arguments.get()).run();
      };
      item.chain.expect_near(item.chain.run(launch), item.terms);
    }
  }

 private:
  struct Item {
    ChainMaker chain;
    ChainCode code;
    int64_t terms;
  };

  std::vector<Item> chains_;
  std::string source_;
};

const Attrs kScalar{{"scalar", 0.75}};

void add_functions(ChainBatch& batch, DType dtype) {
  for_each_chain_function(
      Shape{1003}, dtype, /*generated=*/true,
      [&](const std::string&, ChainMaker maker) { batch.add(std::move(maker)); });
}

// Returns a chain with x * a + b for operands of the given shapes, and the sum of that with x.
ChainMaker scaled(const Shape& shape, const Shape& a, const Shape& b, DType dtype) {
  ChainMaker c(shape, dtype);
  const int x = c.input(), scale = c.input(a), shift = c.input(b);
  const int y = c.op("broadcast_add", {c.op("broadcast_mul", {x, scale}), shift});
  c.chain.outputs = {y, c.op("broadcast_sub", {scale, c.op("elemwise_add", {x, y})})};
  return c;
}

void add_broadcasts(ChainBatch& batch, DType dtype) {
  batch.add(swish({3, 331}, dtype));
  batch.add(scaled({4, 6, 5, 8}, {6, 1, 1}, {1, 6, 1, 1}, dtype));    // one element for a pack
  batch.add(scaled({4, 6, 5, 7}, {6, 1, 1}, {1, 6, 1, 1}, dtype));    // across packs
  batch.add(scaled({33, 24}, {24}, {33, 1}, dtype));                  // rows, and one for a row
  batch.add(scaled({33, 25}, {25}, {33, 1}, dtype));                  // rows that packs straddle
  batch.add(scaled({4, 6, 5, 16}, {4, 1, 5, 1}, {6, 1, 16}, dtype));  // two terms each
  batch.add(scaled({4, 6, 5, 3}, {4, 1, 5, 1}, {6, 1, 3}, dtype));
}

// Returns a chain with a row end after two steps with a broadcast operand. The value before the row
// end is an output, too.
ChainMaker rows(const Shape& shape, DType dtype, const char* name, const Attrs& attrs = {}) {
  ChainMaker c(shape, dtype);
  const int x = c.input(), shift = c.input(Shape{shape[shape.ndim() - 1]});
  const int y = c.op("broadcast_add", {c.op("_mul_scalar", {x}, kScalar), shift});
  c.chain.outputs = {y, c.op(name, {y}, attrs)};
  return c;
}

void add_row_ends(ChainBatch& batch, DType dtype) {
  for (const Shape& shape : {Shape{19, 40}, Shape{5, 33}, Shape{3, 2056}, Shape{2, 1301}}) {
    const int64_t n = shape[1];
    const Attrs last{{"axis", Shape{1}}};
    batch.add(rows(shape, dtype, "sum", last), n);
    batch.add(rows(shape, dtype, "mean", last), n);
    batch.add(rows(shape, dtype, "softmax"), n);
    batch.add(rows(shape, dtype, "softmax", {{"temperature", 2.5}}), n);
    batch.add(rows(shape, dtype, "log_softmax"), n);
  }
  batch.add(rows({7, 3, 24}, dtype, "sum", {{"axis", Shape{1, 2}}, {"keepdims", true}}), 72);
  batch.add(rows({7, 3, 24}, dtype, "mean", {{"axis", Shape{0}}, {"exclude", true}}), 72);
}

class RtcChainTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, RtcChainTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST_P(RtcChainTest, EveryFunctionIsItsOperator) {
  ChainBatch batch;
  add_functions(batch, GetParam());
  batch.expect_same_on_host();
}

TEST_P(RtcChainTest, OperandsAreBroadcast) {
  ChainBatch batch;
  add_broadcasts(batch, GetParam());
  batch.expect_same_on_host();
}

TEST_P(RtcChainTest, RowsAreSummedAndNormalized) {
  ChainBatch batch;
  add_row_ends(batch, GetParam());
  batch.expect_same_on_host();
}

TEST(RtcChain, ASourceServesOtherSizesAndConstants) {
  const auto source = [](const Shape& shape, double scalar) {
    ChainMaker c(shape, DType::kFloat32);
    const int x = c.input(), bias = c.input(Shape{shape[1], 1});
    c.chain.outputs = {
        c.op("_mul_scalar", {c.op("broadcast_add", {x, bias})}, {{"scalar", scalar}})};
    std::string why_not;
    return pointwise::generate_chain(c.chain, "chain", &why_not)->source;
  };
  EXPECT_EQ(source({2, 3, 16}, 0.5), source({5, 7, 64}, -3));
  // Packs of these rows are read element by element.
  EXPECT_NE(source({2, 3, 16}, 0.5), source({2, 3, 15}, 0.5));
}

TEST(RtcChain, WhatCannotBeGeneratedIsRefusedWithAReason) {
  std::string why_not;
  ChainMaker wide(Shape{1024}, DType::kFloat64);
  wide.chain.outputs = {wide.op("exp", {wide.input()})};
  EXPECT_FALSE(pointwise::generate_chain(wide.chain, "chain", &why_not));
  EXPECT_EQ(why_not, "a value is float64");
}

TEST(RtcChain, RowEndsAreNeighboringElements) {
  const auto length = [](const char* name, const Shape& shape, const Attrs& attrs) -> int64_t {
    const OpSchema& op = ops().get(name);
    const ParamsRef params = op.make_params_by_name(attrs);
    const TensorSpec in{shape, DType::kFloat32};
    const Specs out = op.infer(params.get(), {&in, 1});
    const auto end = pointwise::find_row_end(op, params.get(), in, out[0]);
    return end ? end->length : 0;
  };
  EXPECT_EQ(length("sum", {4, 5, 6}, {{"axis", Shape{2}}}), 6);
  EXPECT_EQ(length("sum", {4, 5, 6}, {{"axis", Shape{1, 2}}}), 30);
  EXPECT_EQ(length("sum", {4, 5, 6}, {}), 120);
  EXPECT_EQ(length("sum", {4, 5, 6}, {{"axis", Shape{1}}}), 0);
  EXPECT_EQ(length("sum", {4, 5, 1}, {{"axis", Shape{1}}}), 5);
  EXPECT_EQ(length("softmax", {4, 5}, {}), 5);
  EXPECT_EQ(length("softmax", {4, 5}, {{"axis", int64_t{0}}}), 0);
  EXPECT_EQ(length("max", {4, 5}, {{"axis", Shape{1}}}), 0);
}

TEST(RtcChain, ArgumentsSayWhetherMemoryIsAligned) {
  ChainMaker c(Shape{4, 24}, DType::kFloat32);
  const int x = c.input(), row = c.input(Shape{24}), one = c.input(Shape{4, 1});
  c.chain.outputs = {c.op("broadcast_add", {c.op("broadcast_mul", {x, row}), one})};
  std::string why_not;
  const auto code = pointwise::generate_chain(c.chain, "chain", &why_not);
  ASSERT_TRUE(code);
  alignas(16) float memory[512];
  const auto packed = [&](int a, int b, int d, int out) {
    void* in[] = {memory + a, memory + b, memory + d};
    void* to[] = {memory + out};
    const pointwise::ChainArguments arguments(*code, in, to);
    const auto all = arguments.get();
    return *static_cast<const int*>(all[all.size() - 3].value);
  };
  EXPECT_EQ(packed(0, 100, 200, 300), 1);
  EXPECT_EQ(packed(0, 100, 201, 300), 1);  // read one by one
  EXPECT_EQ(packed(1, 100, 200, 300), 0);
  EXPECT_EQ(packed(0, 101, 200, 300), 0);
  EXPECT_EQ(packed(0, 100, 200, 302), 0);
}

class RealNvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    nvrtc_ = rtc::Nvrtc::get(&why_not);
    if (nvrtc_) return;
    if (std::getenv("MXLITE_REQUIRE_NVRTC")) FAIL() << why_not;
    GTEST_SKIP() << why_not;
  }
  const rtc::Nvrtc* nvrtc_ = nullptr;
};

TEST_F(RealNvrtcTest, EveryGeneratedSourceCompiles) {
  ChainBatch batch;
  add_functions(batch, DType::kFloat32);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    batch.add(swish({3, 331}, dtype));
    add_broadcasts(batch, dtype);
    add_row_ends(batch, dtype);
  }
  for (const char* architecture : {"8.0", "9.0"}) {
    const rtc::CompiledCode code =
        nvrtc_->compile({batch.source(), pointwise::chain_options(), {}}, architecture);
    ASSERT_GT(code.image.size(), 4u);
    EXPECT_EQ(std::memcmp(code.image.data(),
                          "\x7f"
                          "ELF",
                          4),
              0);
  }
}

// Each step rounds its result, so multiplication and addition in two steps must not become a fused
// multiply-add.
TEST_F(RealNvrtcTest, StepsAreNotContracted) {
  ChainBatch batch;
  batch.add(scaled({33, 24}, {24}, {33, 1}, DType::kFloat32));
  std::vector<std::string> options = pointwise::chain_options();
  options.push_back("--gpu-architecture=compute_90");
  const rtc::CompiledCode code = nvrtc_->compile({batch.source(), options, {}}, "9.0");
  const std::string ptx(reinterpret_cast<const char*>(code.image.data()));
  EXPECT_HAS(ptx, "mul.rn.f32");
  EXPECT_HAS(ptx, "add.rn.f32");
  EXPECT_EQ(ptx.find("fma"), std::string::npos);
}

TEST_F(RealNvrtcTest, NamesAndErrorsOfPrograms) {
  const rtc::CompiledCode code = nvrtc_->compile(
      {"template <class T> __global__ void scale(T* x, T a) { x[threadIdx.x] *= a; }",
       {},
       {"scale<float>"}},
      "9.0");
  EXPECT_HAS(code.names.at("scale<float>"), "scale");
  const auto compile_wrong = [&] {
    nvrtc_->compile({"__global__ void wrong(float* x) { x[0] = nothing; }", {}, {}}, "9.0");
  };
  EXPECT_HAS(error_of(compile_wrong, ErrorKind::kValue), "nothing");
  // A GPU that this NVRTC does not know gets PTX, which its driver translates.
  const rtc::CompiledCode later =
      nvrtc_->compile({"extern \"C\" __global__ void none() {}", {}, {}}, "99.9");
  EXPECT_HAS(reinterpret_cast<const char*>(later.image.data()), ".target");
}

}  // namespace
}  // namespace mxlite::test
