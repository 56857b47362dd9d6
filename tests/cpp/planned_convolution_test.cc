// Tests that planned convolutions, their gradients and dense layers give the results of the native
// kernels, with and without post-ops, also if the number of channels is not a multiple of the
// block.
#include "cpp/ops/cpu/processor.h"
#include "tests/cpp/planned_call.h"

namespace mxlite::test {
namespace {

struct ConvCase {
  int64_t channels, height, width, filters, kernel, stride, pad, groups;
};
const ConvCase kConvs[] = {
    {3, 17, 19, 20, 7, 2, 3, 1},  {16, 12, 13, 32, 3, 1, 1, 1}, {21, 9, 8, 35, 3, 1, 1, 1},
    {64, 14, 14, 48, 1, 1, 0, 1}, {64, 13, 15, 30, 1, 2, 0, 1}, {32, 12, 12, 32, 3, 2, 1, 32},
    {24, 12, 12, 36, 3, 1, 1, 3}, {48, 1, 1, 20, 1, 1, 0, 1},   {19, 23, 7, 17, 5, 1, 2, 1},
    {64, 28, 28, 64, 3, 1, 1, 1}, {37, 15, 22, 70, 3, 1, 0, 1},
};

Attrs conv_attrs(const ConvCase& c, bool no_bias) {
  return {{"kernel", Shape{c.kernel, c.kernel}},
          {"stride", Shape{c.stride, c.stride}},
          {"pad", Shape{c.pad, c.pad}},
          {"num_filter", c.filters},
          {"num_group", c.groups},
          {"no_bias", no_bias}};
}

std::vector<Tensor> conv_inputs(const ConvCase& c, int64_t batch, DType dtype) {
  return tensors({{batch, c.channels, c.height, c.width},
                  {c.filters, c.channels / c.groups, c.kernel, c.kernel},
                  {c.filters}},
                 dtype);
}

TEST(PlannedKernel, ConvolutionWithPostOps) {
  const std::vector<std::vector<PostOp>> fusions = {
      {},
      {activation("Activation", {{"act_type", std::string("relu")}})},
      {addition()},
      {addition(), activation("relu", {})},
      {activation("LeakyReLU", {{"act_type", std::string("leaky")}, {"slope", 0.1}})},
      {activation("LeakyReLU", {{"act_type", std::string("elu")}, {"slope", 1.0}})},
      {activation("LeakyReLU", {{"act_type", std::string("selu")}})},
      {activation("LeakyReLU", {{"act_type", std::string("gelu")}})},
      {activation("Activation", {{"act_type", std::string("tanh")}})},
      {activation("sigmoid", {})},
  };
  for (const DType dtype : kTypes)
    for (const ConvCase& c : kConvs)
      for (size_t f = 0; f < fusions.size(); ++f) {
        const bool full = c.channels == 21;
        if (f >= 4 && !full) continue;  // every activation once, with padded channels
        PlannedCall call{{"Convolution", conv_attrs(c, false), conv_inputs(c, 2, dtype)},
                         kStarts[f % 3],
                         false,
                         {0, 1, 1},
                         fusions[f]};
        if (!fusions[f].empty() && fusions[f][0].kind == PostOp::Kind::kAdd)
          call.extras.push_back(random_tensor(call.call.output_specs()[0], 77));
        call.expect_equal(str("fusion ", f, ", kernel ", c.kernel), 3);  // Winograd rounds more
      }
}

bool is_winograd(const PlannedCall& call) {
  std::vector<Layout> layouts;
  const auto plan = call.plan(layouts);
  const Shape& weight = call.call.inputs[1].spec.shape;
  return plan && !plan->inputs[1].is_plain() &&
         (onednn::format_of(plan->inputs[1]).winograd ||
          onednn::format_of(plan->inputs[1]).desc == onednn::winograd_weight_desc(weight));
}

struct WinogradCase {
  int64_t batch, channels, height, width, filters, pad, kernel = 3;
};

TEST(PlannedKernel, WinogradConvolution) {
  // The cases have few and many tiles, cut tiles, a last panel of 16 filters, and blocks of one
  // thread or of several.
  for (const WinogradCase& c :
       {WinogradCase{1, 16, 30, 31, 48, 1}, WinogradCase{3, 48, 18, 19, 32, 0},
        WinogradCase{9, 32, 17, 14, 16, 1}, WinogradCase{3, 64, 57, 61, 80, 1},
        WinogradCase{2, 48, 16, 13, 64, 2, 5}, WinogradCase{5, 16, 33, 40, 48, 1, 5}})
    for (const uint8_t constant : {0, 1})
      for (int fusion = 0; fusion < 4; ++fusion) {
        PlannedCall call{{"Convolution",
                          {{"kernel", Shape{c.kernel, c.kernel}},
                           {"pad", Shape{c.pad, c.pad}},
                           {"num_filter", c.filters},
                           {"no_bias", fusion == 3}},
                          tensors({{c.batch, c.channels, c.height, c.width},
                                   {c.filters, c.channels, c.kernel, c.kernel},
                                   {c.filters}},
                                  DType::kFloat32)},
                         kStarts[fusion % 3],
                         false,
                         {0, constant, constant}};
        if (fusion == 3) call.call.inputs.pop_back();
        if (fusion & 1) {
          call.post_ops.push_back(addition());
          call.extras.push_back(random_tensor(call.call.output_specs()[0], 77));
        }
        if (fusion & 2) call.post_ops.push_back(activation("relu", {}));
        EXPECT_TRUE(is_winograd(call)) << c.channels << " channels, constant " << int{constant};
        call.expect_equal(str("fusion ", fusion, ", pad ", c.pad), 3);
      }
}

TEST(PlannedKernel, WinogradGradients) {
  // The cases have several blocks of tiles, cut tiles, last panels of 16 filters, and paddings of 0
  // and more.
  for (const WinogradCase& c :
       {WinogradCase{4, 16, 30, 31, 48, 1}, WinogradCase{3, 48, 19, 18, 32, 0},
        WinogradCase{9, 32, 17, 14, 16, 2}, WinogradCase{3, 64, 57, 61, 80, 1},
        WinogradCase{4, 48, 16, 13, 64, 2, 5}, WinogradCase{5, 16, 33, 40, 48, 1, 5}})
    for (const Start start : kStarts) {
      Attrs attrs = {{"kernel", Shape{c.kernel, c.kernel}},
                     {"pad", Shape{c.pad, c.pad}},
                     {"num_filter", c.filters},
                     {"no_bias", true}};
      const auto in = tensors(
          {{c.batch, c.channels, c.height, c.width}, {c.filters, c.channels, c.kernel, c.kernel}},
          DType::kFloat32);
      const OpCall forward("Convolution", attrs, in);
      const Tensor grad = random_tensor(forward.output_specs()[0], 5);
      for (const bool no_bias : {true, false}) {
        attrs.back().second = no_bias;
        PlannedCall weight{{"_convolution_backward_weight", attrs, {grad, in[0]}}, start, true};
        std::vector<Layout> layouts;
        const auto plan = weight.plan(layouts);
        ASSERT_TRUE(plan.has_value());
        EXPECT_TRUE(same_layout(
            plan->outputs[0], onednn::make_layout(onednn::winograd_weight_desc(in[1].spec.shape))));
        weight.expect_equal(str("weight, pad ", c.pad), 5);
      }
      attrs.push_back({"data_shape", in[0].spec.shape});
      PlannedCall data{{"_convolution_backward_data", attrs, {grad, in[1]}}, start, true};
      std::vector<Layout> layouts;
      const auto plan = data.plan(layouts);
      ASSERT_TRUE(plan.has_value());
      EXPECT_TRUE(same_layout(
          plan->inputs[1], onednn::make_layout(onednn::winograd_rotated_desc(in[1].spec.shape))));
      data.expect_equal(str("data, pad ", c.pad), 3);
    }
}

TEST(PlannedKernel, WinogradOnlyWhereItIsTheSameFunctionAndPays) {
  const auto refuses = [](const Attrs& attrs, const Shape& data, const Shape& weight, DType dtype) {
    return !is_winograd(
        {{"Convolution", attrs, tensors({data, weight}, dtype)}, Start::kPlain, false, {0, 1}});
  };
  Attrs attrs = {{"kernel", Shape{3, 3}},
                 {"pad", Shape{1, 1}},
                 {"num_filter", int64_t{32}},
                 {"no_bias", true}};
  const DType f32 = DType::kFloat32;
  EXPECT_FALSE(refuses(attrs, {1, 32, 28, 28}, {32, 32, 3, 3}, f32));
  EXPECT_TRUE(refuses(attrs, {1, 32, 7, 7}, {32, 32, 3, 3}, f32));    // few tiles
  EXPECT_TRUE(refuses(attrs, {1, 24, 28, 28}, {32, 24, 3, 3}, f32));  // no whole registers
  EXPECT_TRUE(refuses(attrs, {1, 32, 28, 28}, {32, 32, 3, 3}, DType::kBFloat16));
  attrs.push_back({"stride", Shape{2, 2}});
  EXPECT_TRUE(refuses(attrs, {1, 32, 28, 28}, {32, 32, 3, 3}, f32));
}

TEST(PlannedKernel, FirstLayersWriteChannelsLast) {
  struct Case {
    int64_t channels, height, width, filters, kernel, stride, dilate, pad;
  };
  for (const Case& c : {Case{3, 37, 41, 64, 7, 2, 1, 3}, Case{1, 28, 28, 32, 5, 1, 1, 0},
                        Case{3, 19, 23, 48, 3, 2, 1, 1}, Case{4, 20, 33, 80, 3, 1, 2, 2},
                        Case{3, 40, 40, 112, 11, 4, 1, 2}})
    for (const bool relu : {false, true}) {
      PlannedCall call{{"Convolution",
                        {{"kernel", Shape{c.kernel, c.kernel}},
                         {"stride", Shape{c.stride, c.stride}},
                         {"dilate", Shape{c.dilate, c.dilate}},
                         {"pad", Shape{c.pad, c.pad}},
                         {"num_filter", c.filters}},
                        tensors({{2, c.channels, c.height, c.width},
                                 {c.filters, c.channels, c.kernel, c.kernel},
                                 {c.filters}},
                                DType::kFloat32)}};
      if (relu) call.post_ops = {activation("relu", {})};
      std::vector<Layout> layouts;
      const auto plan = call.plan(layouts);
      ASSERT_TRUE(plan.has_value());
      if (cpu::has_avx512()) {  // oneDNN's is faster otherwise
        EXPECT_TRUE(same_layout(plan->outputs[0],
                                onednn::make_layout(onednn::channels_last_of(
                                    call.call.output_specs()[0].shape, DType::kFloat32))));
      }
      call.expect_equal(str("kernel ", c.kernel));
    }
}

TEST(PlannedKernel, ConvolutionGradients) {
  for (const DType dtype : kTypes)
    for (const ConvCase& c : kConvs)
      for (const Start start : kStarts) {
        const auto in = conv_inputs(c, 3, dtype);
        const OpCall forward("Convolution", conv_attrs(c, false), in);
        const Tensor grad = random_tensor(forward.output_specs()[0], 5);
        Attrs with_shape = conv_attrs(c, true);
        with_shape.push_back({"data_shape", in[0].spec.shape});
        PlannedCall{{"_convolution_backward_data", with_shape, {grad, in[1]}}, start, true}
            .expect_equal("data");
        for (const bool no_bias : {true, false})
          PlannedCall{
              {"_convolution_backward_weight", conv_attrs(c, no_bias), {grad, in[0]}}, start, true}
              .expect_equal("weight", 2);
      }
}

TEST(PlannedKernel, ChannelsLastConvolution) {
  for (const int64_t groups : {1, 2}) {
    const Attrs attrs = {{"kernel", Shape{3, 3}},
                         {"pad", Shape{1, 1}},
                         {"num_filter", int64_t{20}},
                         {"num_group", groups},
                         {"layout", std::string("NHWC")}};
    PlannedCall{{"Convolution", attrs,
                 tensors({{2, 9, 11, 14}, {20, 3, 3, 14 / groups}, {20}}, DType::kFloat32)}}
        .expect_equal("NHWC");
  }
}

TEST(PlannedKernel, Deconvolution) {
  for (const DType dtype : kTypes)
    for (const int64_t groups : {1, 2})
      for (const char* layout : {"NCHW", "NHWC"}) {
        const bool last = std::string_view(layout) == "NHWC";
        const Attrs attrs = {{"kernel", Shape{4, 4}},        {"stride", Shape{2, 2}},
                             {"pad", Shape{1, 1}},           {"num_filter", int64_t{22}},
                             {"num_group", groups},          {"no_bias", false},
                             {"layout", std::string(layout)}};
        const Shape data = last ? Shape{2, 7, 9, 18} : Shape{2, 18, 7, 9};
        const Shape weight = last ? Shape{18, 4, 4, 22 / groups} : Shape{18, 22 / groups, 4, 4};
        PlannedCall{{"Deconvolution", attrs, tensors({data, weight, {22}}, dtype)},
                    Start::kPlain,
                    false,
                    {},
                    {activation("relu", {})}}
            .expect_equal(layout);
      }
}

TEST(PlannedKernel, FullyConnected) {
  for (const DType dtype : kTypes)
    for (const int64_t rows : {1, 2, 7, 33})
      for (const uint8_t constant : {0, 1}) {
        const Attrs attrs = {{"num_hidden", int64_t{77}}};
        PlannedCall call{
            {"FullyConnected", attrs, tensors({{rows, 20, 3, 5}, {77, 300}, {77}}, dtype)},
            Start::kChannelsLast,
            false,
            {0, constant, constant}};
        call.expect_equal(str(rows, " rows"));
        call.post_ops = {addition(), activation("relu", {})};
        call.extras = {random_tensor(call.call.output_specs()[0], 3)};
        call.expect_equal(str(rows, " rows, add and relu"));
      }
}

}  // namespace
}  // namespace mxlite::test
