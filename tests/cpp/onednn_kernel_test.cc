// Tests that every eager oneDNN kernel gives the result of the native kernel.
#include "cpp/core/openmp.h"
#include "cpp/ops/cpu/onednn/engine.h"
#include "cpp/ops/cpu/onednn/primitive_cache.h"
#include "tests/cpp/op_test_util.h"

namespace mxlite {
namespace {

using test::Attrs;
using test::OpCall;
using test::random_tensor;

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

void expect_same(const char* op, const Attrs& attrs, const std::vector<Shape>& shapes,
                 DType dtype) {
  if (!onednn::computes_in(dtype)) return;
  std::vector<test::Tensor> inputs;
  for (const Shape& s : shapes)
    inputs.push_back(random_tensor({s, dtype}, static_cast<uint32_t>(7 + inputs.size())));
  const OpCall call(op, attrs, inputs);
  ASSERT_EQ(call.refusal("onednn"), nullptr) << op << ' ' << shapes[0] << ' ' << dtype;
  const auto expected = call.run("native"), got = call.run("onednn");
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(relative_error(got[i], expected[i]), test::tolerance(dtype))
        << op << " output " << i << ", data " << shapes[0] << ' ' << dtype;
}

struct ConvCase {
  Shape data, kernel, stride, dilate, pad;
  int64_t filters, groups;
  const char* layout;
};

const ConvCase kConvs[] = {
    {{2, 3, 17, 19}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, 20, 1, "NCHW"},
    {{1, 21, 9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 35, 1, "NCHW"},
    {{3, 64, 14, 14}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 48, 1, "NCHW"},
    {{2, 64, 13, 15}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, 30, 1, "NCHW"},
    {{2, 32, 12, 12}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 32, 32, "NCHW"},
    {{2, 24, 12, 12}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 36, 3, "NCHW"},
    {{2, 11, 10, 18}, {3, 5}, {1, 2}, {1, 1}, {1, 2}, 16, 1, "NHWC"},
    {{2, 19, 30}, {5}, {2}, {1}, {2}, 23, 1, "NCW"},
    {{1, 6, 7, 8, 9}, {3, 3, 3}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, 10, 2, "NCDHW"},
};

Shape data_shape(const ConvCase& c) {
  Shape s = c.data;
  if (std::string_view(c.layout) == "NHWC") {
    s.erase(1);
    s.push_back(c.data[1]);
  }
  return s;
}

Shape weight_shape(const ConvCase& c, int64_t out, int64_t in) {
  Shape s{out};
  const bool last = std::string_view(c.layout) == "NHWC";
  if (!last) s.push_back(in);
  for (int64_t k : c.kernel) s.push_back(k);
  if (last) s.push_back(in);
  return s;
}

Attrs conv_attrs(const ConvCase& c, bool no_bias) {
  return {{"kernel", c.kernel},      {"stride", c.stride},
          {"dilate", c.dilate},      {"pad", c.pad},
          {"num_filter", c.filters}, {"num_group", c.groups},
          {"no_bias", no_bias},      {"layout", std::string(c.layout)}};
}

TEST(OnednnKernel, ConvolutionForwardAndBackwardEqualNative) {
  for (const DType dtype : kTypes)
    for (const ConvCase& c : kConvs) {
      const Shape data = data_shape(c), weight = weight_shape(c, c.filters, c.data[1] / c.groups);
      expect_same("Convolution", conv_attrs(c, true), {data, weight}, dtype);
      expect_same("Convolution", conv_attrs(c, false), {data, weight, Shape{c.filters}}, dtype);
      const OpCall forward("Convolution", conv_attrs(c, true),
                           {test::Tensor({data, dtype}), test::Tensor({weight, dtype})});
      const Shape output = forward.output_specs()[0].shape;
      Attrs with_shape = conv_attrs(c, true);
      with_shape.push_back({"data_shape", data});
      expect_same("_convolution_backward_data", with_shape, {output, weight}, dtype);
      for (const bool no_bias : {true, false})
        expect_same("_convolution_backward_weight", conv_attrs(c, no_bias), {output, data}, dtype);
    }
}

TEST(OnednnKernel, DeconvolutionEqualsNative) {
  for (const DType dtype : kTypes)
    for (const ConvCase& c : kConvs) {
      if (c.filters % c.groups || c.dilate[0] > 1) continue;
      Attrs attrs = conv_attrs(c, false);
      Shape adj;
      for (int64_t s : c.stride) adj.push_back(s - 1);
      attrs.push_back({"adj", adj});
      expect_same(
          "Deconvolution", attrs,
          {data_shape(c), weight_shape(c, c.data[1], c.filters / c.groups), Shape{c.filters}},
          dtype);
    }
}

TEST(OnednnKernel, FullyConnectedEqualsNative) {
  for (const DType dtype : kTypes)
    for (const int64_t rows : {1, 2, 33})
      for (const bool no_bias : {true, false}) {
        std::vector<Shape> shapes = {{rows, 20, 15}, {77, 300}, {77}};
        if (no_bias) shapes.pop_back();
        if (rows == 1 && dtype == DType::kFloat32) continue;  // oneDNN refuses this
        expect_same("FullyConnected", {{"num_hidden", int64_t{77}}, {"no_bias", no_bias}}, shapes,
                    dtype);
      }
}

TEST(OnednnKernel, PoolingEqualsNative) {
  for (const DType dtype : kTypes)
    for (const char* type : {"max", "avg"})
      for (const char* convention : {"valid", "full"})
        for (const bool include : {true, false}) {
          // oneDNN refuses this.
          if (std::string_view(convention) == "full" && include && std::string_view(type) == "avg")
            continue;
          expect_same("Pooling",
                      {{"kernel", Shape{3, 3}},
                       {"stride", Shape{2, 2}},
                       {"pad", Shape{1, 1}},
                       {"pool_type", std::string(type)},
                       {"pooling_convention", std::string(convention)},
                       {"count_include_pad", include}},
                      {{2, 19, 14, 15}}, dtype);
        }
}

TEST(OnednnKernel, OneRowAndWholeAveragesStayNative) {
  const auto random = [](const Shape& shape) { return random_tensor({shape, DType::kFloat32}, 1); };
  const OpCall dense("FullyConnected", {{"num_hidden", int64_t{77}}, {"no_bias", true}},
                     {random({1, 300}), random({77, 300})});
  EXPECT_NE(dense.refusal("onednn"), nullptr);
  const OpCall average("Pooling", {{"global_pool", true}, {"pool_type", std::string("avg")}},
                       {random({3, 40, 7, 9})});
  EXPECT_NE(average.refusal("onednn"), nullptr);
}

TEST(OnednnKernel, AveragesOverCutWindowsStayNative) {
  const OpCall call("Pooling",
                    {{"kernel", Shape{3, 3}},
                     {"stride", Shape{2, 2}},
                     {"pad", Shape{1, 1}},
                     {"pool_type", std::string("avg")},
                     {"pooling_convention", std::string("full")}},
                    {random_tensor({{1, 4, 14, 14}, DType::kFloat32}, 1)});
  EXPECT_NE(call.refusal("onednn"), nullptr);
}

TEST(OnednnKernel, SoftmaxAndLrnEqualNative) {
  for (const DType dtype : kTypes) {
    expect_same("softmax", {}, {{410, 41}}, dtype);
    expect_same("log_softmax", {}, {{41, 10, 41}}, dtype);
  }
  expect_same("LRN", {{"nsize", int64_t{5}}, {"knorm", 2.0}}, {{2, 23, 9, 11}}, DType::kFloat32);
}

TEST(OnednnKernel, SoftmaxOfLongFloatRowsStaysNative) {
  const OpCall call("softmax", {}, {random_tensor({{40, 1001}, DType::kFloat32}, 1)});
  EXPECT_NE(call.refusal("onednn"), nullptr);
}

TEST(OnednnKernel, EmptyArraysStayNative) {
  const OpCall call("Convolution",
                    {{"kernel", Shape{1, 1}}, {"num_filter", int64_t{4}}, {"no_bias", true}},
                    {test::Tensor({{0, 3, 5, 5}, DType::kFloat32}),
                     test::Tensor({{4, 3, 1, 1}, DType::kFloat32})});
  EXPECT_NE(call.refusal("onednn"), nullptr);
}

TEST(OnednnKernel, RegionsOfOneDnnRunOnOurThreads) {
  onednn::engine();
  EXPECT_STREQ(openmp::replace_libgomp(reinterpret_cast<const void*>(&dnnl_engine_create)),
               nullptr);
  // Functions of libraries that call no libgomp, or no library at all.
  EXPECT_STREQ(openmp::replace_libgomp(reinterpret_cast<const void*>(&openmp::run_region)),
               "the library does not call libgomp");
  int local = 0;
  EXPECT_STREQ(openmp::replace_libgomp(&local), "the library was not found");
}

TEST(PrimitiveCache, SecondCallAddsNothingAndTheSizeIsBounded) {
  onednn::clear_primitive_cache();
  for (int i = 0; i < 3; ++i)
    expect_same("LRN", {{"nsize", int64_t{3}}}, {{1, 8, 4, 4}}, DType::kFloat32);
  EXPECT_EQ(onednn::primitive_cache_size(), 1u);
  for (int64_t i = 0; i < 5000; ++i) onednn::cached(onednn::Key("test").add(i), [&] { return i; });
  EXPECT_EQ(onednn::primitive_cache_size(), 2048u);
  // The most recent are still there.
  EXPECT_EQ(*onednn::cached(onednn::Key("test").add(int64_t{4999}), [] { return int64_t{-1}; }),
            4999);
  EXPECT_EQ(*onednn::cached(onednn::Key("test").add(int64_t{0}), [] { return int64_t{-1}; }), -1);
  onednn::clear_primitive_cache();
}

}  // namespace
}  // namespace mxlite
