// Tests which quantized layers run on tensor cores, and the operands that they get there.
#include "cpp/ops/quantization/int8_product.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/cpp/errors.h"

namespace mxlite::quantization {
namespace {

using Numbers = ConvolutionProblem::Numbers;
using Window = std::array<int64_t, 3>;

std::string text(const char* reason) { return reason ? reason : ""; }

Int8Gemm gemm(int64_t rows, int64_t columns, int64_t hidden, DType dtype = DType::kInt8,
              int64_t data_alignment = 16, int64_t weight_alignment = 16) {
  FullyConnectedParams p;
  p.num_hidden = hidden;
  return plan_int8_gemm(p, {rows, columns}, dtype, data_alignment, weight_alignment);
}

TEST(Int8ProductTest, OperandsAreCopiedOnlyWhereTheyMustBe) {
  struct Case {
    int64_t columns, hidden, padded_columns, padded_hidden;
    const char* copies;  // which operands are copied, and whether data is shifted
    DType dtype = DType::kInt8;
    int64_t data_alignment = 16, weight_alignment = 16;
  };
  const Case cases[] = {
      {4, 1000, 4, 1000, ""},
      {20, 1000, 20, 1000, ""},
      {64, 1000, 64, 1000, ""},
      {2048, 1000, 2048, 1000, ""},
      {10, 8, 16, 8, "data weight "},  // other columns are padded in both factors
      {64, 10, 64, 12, "weight sums "},
      {64, 8, 64, 8, "data ", DType::kInt8, 2, 16},
      {64, 8, 64, 8, "weight ", DType::kInt8, 16, 1},
      {64, 8, 64, 8, "", DType::kInt8, 4, 4},
      {64, 8, 64, 8, "data shifted ", DType::kUInt8},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(str(c.columns, " columns, ", c.hidden, " outputs, ", dtype_name(c.dtype)));
    const Int8Gemm g = gemm(3, c.columns, c.hidden, c.dtype, c.data_alignment, c.weight_alignment);
    EXPECT_EQ(text(g.why_loops), "");
    EXPECT_EQ(g.rows, 3);
    EXPECT_EQ(g.padded_columns, c.padded_columns);
    EXPECT_EQ(g.padded_hidden, c.padded_hidden);
    EXPECT_EQ(str(g.copies_data ? "data " : "", g.copies_weight ? "weight " : "",
                  g.copies_sums ? "sums " : "", g.shifted ? "shifted " : ""),
              c.copies);
  }
}

TEST(Int8ProductTest, SumsThatMayExceedInt32RunInLoops) {
  // This is the largest number of products -128 * -128 whose sum is below 2^31.
  EXPECT_EQ(kMostProducts * 128 * 128 + 128 * 128, int64_t{1} << 31);
  EXPECT_EQ(text(gemm(1, kMostProducts, 4).why_loops), "");
  EXPECT_HAS(text(gemm(1, kMostProducts + 1, 4).why_loops), "int32");
  EXPECT_HAS(text(gemm(0, 8, 4).why_loops), "empty");
  EXPECT_HAS(text(gemm(2, 0, 4).why_loops), "empty");
}

ConvolutionParams params(Shape kernel, int64_t filters) {
  ConvolutionParams p;
  p.kernel = std::move(kernel);
  p.num_filter = filters;
  return p;
}

TEST(Int8ProductTest, ChannelsArePaddedToWholeVectors) {
  ConvolutionParams p = params({3, 3}, 10);
  p.pad = {1, 1};
  p.stride = {2, 2};
  const Int8Convolution c = plan_int8_convolution(p, {2, 3, 9, 7}, {2, 10, 5, 4}, DType::kInt8);
  EXPECT_EQ(text(c.why_loops), "");
  EXPECT_FALSE(c.shifted);
  EXPECT_TRUE(c.problem.channels_last);
  EXPECT_EQ(c.problem.dtype, DType::kInt8);
  EXPECT_EQ(c.problem.direction, ConvolutionDirection::kForward);
  EXPECT_EQ(c.problem.data, (Numbers{2, 16, 9, 7, 0}));
  EXPECT_EQ(c.problem.weight, (Numbers{12, 16, 3, 3, 0}));
  EXPECT_EQ(c.problem.output, (Numbers{2, 12, 5, 4, 0}));
  EXPECT_EQ(c.problem.pad, (Window{1, 1, 0}));
  EXPECT_EQ(c.border, (Window{0, 0, 0}));
}

TEST(Int8ProductTest, WholeVectorsStayAsTheyAre) {
  const Int8Convolution c =
      plan_int8_convolution(params({1, 1}, 64), {1, 32, 5, 5}, {1, 64, 5, 5}, DType::kInt8);
  EXPECT_EQ(c.problem.data[1], 32);
  EXPECT_EQ(c.problem.weight[0], 64);
}

TEST(Int8ProductTest, ShiftedDataHasItsPaddingInTheCopy) {
  ConvolutionParams p = params({3, 5}, 8);
  p.pad = {1, 2};
  const Int8Convolution c = plan_int8_convolution(p, {2, 16, 9, 7}, {2, 8, 9, 7}, DType::kUInt8);
  EXPECT_TRUE(c.shifted);
  EXPECT_EQ(c.border, (Window{1, 2, 0}));
  EXPECT_EQ(c.problem.pad, (Window{0, 0, 0}));
  EXPECT_EQ(c.problem.data, (Numbers{2, 16, 11, 11, 0}));
  EXPECT_EQ(c.problem.output, (Numbers{2, 8, 9, 7, 0}));
}

TEST(Int8ProductTest, ACopyIsNotMuchLargerThanItsData) {
  ConvolutionParams p = params({3}, 8);
  const auto reason = [&](DType dtype) {
    return text(plan_int8_convolution(p, {1, 16, 4}, {1, 8, 2 + 2 * p.pad[0]}, dtype).why_loops);
  };
  p.pad = {4};
  EXPECT_EQ(reason(DType::kUInt8), "");
  p.pad = {5};
  EXPECT_HAS(reason(DType::kUInt8), "padding");
  EXPECT_EQ(reason(DType::kInt8), "");
}

TEST(Int8ProductTest, OneAndThreeDimensions) {
  ConvolutionParams line = params({3}, 8);
  line.pad = {1};
  const Int8Convolution one = plan_int8_convolution(line, {2, 16, 9}, {2, 8, 9}, DType::kUInt8);
  EXPECT_EQ(one.problem.ndim, 4);
  EXPECT_EQ(one.problem.data, (Numbers{2, 16, 1, 11, 0}));
  EXPECT_EQ(one.border, (Window{0, 1, 0}));
  const Int8Convolution three =
      plan_int8_convolution(params({2, 2, 2}, 8), {2, 3, 4, 5, 6}, {2, 8, 3, 4, 5}, DType::kInt8);
  EXPECT_EQ(three.problem.ndim, 5);
  EXPECT_EQ(three.problem.data, (Numbers{2, 16, 4, 5, 6}));
  EXPECT_EQ(text(three.why_loops), "");
}

TEST(Int8ProductTest, GroupsAndLongSumsOfConvolutionsRunInLoops) {
  ConvolutionParams p = params({3, 3}, 8);
  p.num_group = 2;
  const auto reason = [](const ConvolutionParams& q, int64_t channels, int64_t batch) {
    return text(
        plan_int8_convolution(q, {batch, channels, 9, 7}, {batch, q.num_filter, 7, 5}, DType::kInt8)
            .why_loops);
  };
  EXPECT_HAS(reason(p, 4, 2), "groups");
  p.num_group = 1;
  EXPECT_EQ(reason(p, kMostProducts / 9, 1), "");
  EXPECT_HAS(reason(p, kMostProducts / 9 + 1, 1), "int32");
  EXPECT_HAS(reason(p, 4, 0), "no elements");
}

TEST(Int8ProductTest, ProblemsOfIntegersHaveKeysOfTheirOwn) {
  const ConvolutionParams p = params({3, 3}, 8);
  const Int8Convolution c = plan_int8_convolution(p, {2, 16, 9, 7}, {2, 8, 7, 5}, DType::kInt8);
  const ConvolutionProblem floats = describe_convolution(
      ConvolutionDirection::kForward, p, {2, 16, 9, 7}, {2, 8, 7, 5}, DType::kFloat16, true);
  EXPECT_NE(c.problem.text(), floats.text());
  EXPECT_HAS(c.problem.text(), "int8");
  const PlanRules rules = plan_rules(c.problem);
  EXPECT_FALSE(rules.no_tensor_cores);
  EXPECT_FALSE(rules.no_down_conversion);
}

}  // namespace
}  // namespace mxlite::quantization
