// Every planned kernel gives what the native kernel gives: with plain, channels-last and blocked
// inputs (channel counts that are no multiple of the block too), with and without post-ops.
#include "cpp/ops/planned_kernel.h"

#include <cstring>

#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/norm.h"
#include "cpp/ops/cpu/onednn/winograd.h"
#include "tests/cpp/op_test_util.h"

namespace mxlite {
namespace {

using test::Attrs;
using test::OpCall;
using test::random_tensor;
using test::Tensor;

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

enum class Start { kPlain, kChannelsLast, kBlocked };
constexpr Start kStarts[] = {Start::kPlain, Start::kChannelsLast, Start::kBlocked};

Layout layout_for(const TensorSpec& spec, Start start) {
  if (start == Start::kPlain || spec.shape.ndim() != 4) return {nullptr, spec.bytes()};
  if (start == Start::kChannelsLast)
    return onednn::make_layout(onednn::channels_last_of(spec.shape, spec.dtype));
  return onednn::make_layout(onednn::Desc(onednn::dims(spec.shape), onednn::data_type(spec.dtype),
                                          dnnl::memory::format_tag::aBcd16b));
}

Tensor buffer(const Layout& layout, const TensorSpec& spec) {
  const size_t bytes = std::max(layout.bytes, spec.bytes());
  return Tensor({{static_cast<int64_t>(bytes)}, DType::kUInt8});
}

void run(const Plan& plan, std::span<void* const> in, std::span<void* const> out) {
  const Tensor scratch({{static_cast<int64_t>(plan.scratch_bytes + 64)}, DType::kUInt8});
  KernelContext ctx;
  plan.run(ctx, in, out, scratch.data());
}

Tensor moved(const Tensor& from, const TensorSpec& spec, const Layout& from_layout,
             const Layout& to_layout) {
  Tensor to = buffer(to_layout, spec);
  const Plan plan = plan_reorder(spec, from_layout, spec, to_layout);
  void *in = from.data(), *out = to.data();
  run(plan, {&in, 1}, {&out, 1});
  return to;
}

struct PlannedCall {
  OpCall call;
  std::vector<PostOp> post_ops = {};
  std::vector<Tensor> extras = {};  // one per kAdd
  Start start = Start::kPlain;
  bool training = false;
  std::vector<uint8_t> constant = {};

  std::optional<Plan> plan(std::vector<Layout>& layouts) const {
    std::vector<TensorSpec> specs = call.input_specs();
    for (const Tensor& t : extras) specs.push_back(t.spec);
    layouts.clear();
    for (const TensorSpec& s : specs) layouts.push_back(layout_for(s, start));
    std::vector<uint8_t> fixed = constant;
    fixed.resize(specs.size());
    const auto outputs = call.output_specs();
    const PlannedKernel* kernel = find_planned_kernel(call.op, DeviceType::kCPU);
    if (!kernel) return std::nullopt;
    PlanRequest so_far{call.op, call.params.get(), training, call.input_specs(),
                       outputs, layouts,           fixed,    {}};
    const auto own_specs = call.input_specs();
    so_far.inputs = own_specs;
    size_t extra = 0;
    for (size_t i = 0; i < post_ops.size(); ++i) {
      so_far.post_ops = std::span(post_ops).first(i);
      const bool add = post_ops[i].kind == PostOp::Kind::kAdd;
      EXPECT_TRUE(kernel->can_fuse &&
                  kernel->can_fuse(so_far, post_ops[i], add ? &extras[extra].spec : nullptr))
          << call.op.name << " refuses post-op " << i;
      extra += add;
    }
    return kernel->plan(
        {call.op, call.params.get(), training, specs, outputs, layouts, fixed, post_ops});
  }

  // Plain outputs. Inputs that the op mutates are written back.
  std::optional<std::vector<Tensor>> run_planned() {
    std::vector<Layout> layouts;
    const auto p = plan(layouts);
    if (!p) return std::nullopt;
    std::vector<Tensor> all = call.inputs, ins, outs;
    for (const Tensor& t : extras) all.push_back(t);
    EXPECT_EQ(p->inputs.size(), all.size());
    EXPECT_EQ(p->outputs.size(), call.output_specs().size());
    std::vector<void*> in, out;
    const Layout plain{};
    for (size_t i = 0; i < all.size(); ++i) {
      const bool stays = p->inputs[i].is_plain();
      ins.push_back(stays ? all[i] : moved(all[i], all[i].spec, plain, p->inputs[i]));
      in.push_back(ins.back().data());
    }
    const auto specs = call.output_specs();
    for (size_t i = 0; i < specs.size(); ++i) {
      outs.push_back(buffer(p->outputs[i], specs[i]));
      out.push_back(outs.back().data());
    }
    for (const InplacePair& pair : p->required_inplace) {
      EXPECT_TRUE(same_layout(p->inputs[pair.input], p->outputs[pair.output]));
      std::memcpy(out[pair.output], in[pair.input], p->outputs[pair.output].bytes);
      in[pair.input] = out[pair.output];
    }
    run(*p, in, out);
    std::vector<Tensor> result;
    for (size_t i = 0; i < specs.size(); ++i) {
      result.emplace_back(specs[i]);
      if (p->outputs[i].is_plain())
        std::memcpy(result[i].data(), outs[i].data(), specs[i].bytes());
      else
        std::memcpy(result[i].data(), moved(outs[i], specs[i], p->outputs[i], plain).data(),
                    specs[i].bytes());
    }
    return result;
  }

  std::vector<Tensor> run_native() const {
    std::vector<Tensor> result = call.run("native", training);
    size_t extra = 0;
    for (const PostOp& p : post_ops) {
      if (p.kind == PostOp::Kind::kAdd) {
        for (int64_t i = 0; i < result[0].spec.shape.size(); ++i)
          result[0].set(i, result[0].at(i) + extras[extra].at(i));
        ++extra;
        continue;
      }
      const OpCall post{*p.op, p.params, {result[0]}};
      result[0] = post.run("native")[0];
    }
    return result;
  }

  void expect_equal(const std::string& what, double factor = 1) {
    const DType dtype = call.inputs[0].spec.dtype;
    if (!onednn::computes_in(dtype)) return;
    // Blocks of 16 belong to AVX-512: elsewhere oneDNN may leave them to the plain kernel.
    std::vector<Layout> layouts;
    if (start == Start::kBlocked && !onednn::has_winograd() && !plan(layouts)) return;
    const auto expected = run_native();
    const auto got = run_planned();
    ASSERT_TRUE(got.has_value()) << call.op.name << ": no plan, " << what;
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(relative_error((*got)[i], expected[i]), factor * test::tolerance(dtype))
          << call.op.name << " output " << i << ", " << what << ", " << call.inputs[0].spec
          << ", start " << static_cast<int>(start);
  }
};

PostOp activation(const char* op, const Attrs& attrs) {
  const OpSchema& schema = ops().get(op);
  return {PostOp::Kind::kActivation, &schema, schema.make_params_by_name(attrs)};
}
PostOp addition() { return {PostOp::Kind::kAdd, &ops().get("elemwise_add"), nullptr}; }

std::vector<Tensor> tensors(const std::vector<Shape>& shapes, DType dtype) {
  std::vector<Tensor> list;
  for (const Shape& s : shapes)
    list.push_back(random_tensor({s, dtype}, static_cast<uint32_t>(11 + list.size())));
  return list;
}

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
      {activation("Activation", {{"act_type", std::string("softrelu")}})},
      {activation("sigmoid", {})},
      {activation("clip", {{"a_min", 0.0}, {"a_max", 0.5}})},
      {activation("hard_sigmoid", {{"alpha", 0.3}, {"beta", 0.4}})},
  };
  for (const DType dtype : kTypes)
    for (const ConvCase& c : kConvs)
      for (size_t f = 0; f < fusions.size(); ++f) {
        const bool full = c.channels == 21;
        if (f >= 4 && !full) continue;  // every activation once, with padded channels
        PlannedCall call{{"Convolution", conv_attrs(c, false), conv_inputs(c, 2, dtype)},
                         fusions[f],
                         {},
                         kStarts[f % 3],
                         false,
                         {0, 1, 1}};
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

TEST(PlannedKernel, WinogradConvolution) {
  if (!onednn::has_winograd()) GTEST_SKIP() << "needs AVX-512";
  struct Case {
    int64_t batch, channels, height, width, filters, pad, kernel = 3;
  };
  // Few tiles and many, cut tiles, a last panel of 16 filters, one thread's block and shared ones.
  for (const Case& c :
       {Case{1, 16, 30, 31, 48, 1}, Case{3, 48, 18, 19, 32, 0}, Case{9, 32, 17, 14, 16, 1},
        Case{3, 64, 57, 61, 80, 1}, Case{2, 48, 16, 13, 64, 2, 5}, Case{5, 16, 33, 40, 48, 1, 5}})
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
                         {},
                         {},
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
  if (!onednn::has_winograd()) GTEST_SKIP() << "needs AVX-512";
  struct Case {
    int64_t batch, channels, height, width, filters, pad, kernel = 3;
  };
  // Several blocks of tiles, cut tiles, last panels of 16, paddings of 0 and more.
  for (const Case& c :
       {Case{4, 16, 30, 31, 48, 1}, Case{3, 48, 19, 18, 32, 0}, Case{9, 32, 17, 14, 16, 2},
        Case{3, 64, 57, 61, 80, 1}, Case{4, 48, 16, 13, 64, 2, 5}, Case{5, 16, 33, 40, 48, 1, 5}})
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
        PlannedCall weight{
            {"_convolution_backward_weight", attrs, {grad, in[0]}}, {}, {}, start, true};
        std::vector<Layout> layouts;
        const auto plan = weight.plan(layouts);
        ASSERT_TRUE(plan.has_value());
        EXPECT_TRUE(same_layout(
            plan->outputs[0], onednn::make_layout(onednn::winograd_weight_desc(in[1].spec.shape))));
        weight.expect_equal(str("weight, pad ", c.pad), 5);
      }
      attrs.push_back({"data_shape", in[0].spec.shape});
      PlannedCall data{{"_convolution_backward_data", attrs, {grad, in[1]}}, {}, {}, start, true};
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
        {{"Convolution", attrs, tensors({data, weight}, dtype)}, {}, {}, {}, false, {0, 1}});
  };
  Attrs attrs = {{"kernel", Shape{3, 3}},
                 {"pad", Shape{1, 1}},
                 {"num_filter", int64_t{32}},
                 {"no_bias", true}};
  const DType f32 = DType::kFloat32;
  EXPECT_EQ(refuses(attrs, {1, 32, 28, 28}, {32, 32, 3, 3}, f32), !onednn::has_winograd());
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
      if (onednn::has_winograd()) {  // the same instructions
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
        PlannedCall{{"_convolution_backward_data", with_shape, {grad, in[1]}}, {}, {}, start, true}
            .expect_equal("data");
        for (const bool no_bias : {true, false})
          PlannedCall{{"_convolution_backward_weight", conv_attrs(c, no_bias), {grad, in[0]}},
                      {},
                      {},
                      start,
                      true}
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
            {},
            {},
            Start::kChannelsLast,
            false,
            {0, constant, constant}};
        call.expect_equal(str(rows, " rows"));
        call.post_ops = {addition(), activation("relu", {})};
        call.extras = {random_tensor(call.call.output_specs()[0], 3)};
        call.expect_equal(str(rows, " rows, add and relu"));
      }
}

TEST(PlannedKernel, Pooling) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const char* type : {"max", "avg"}) {
        for (const int64_t channels : {16, 19, 64})
          PlannedCall{{"Pooling",
                       {{"kernel", Shape{3, 3}},
                        {"stride", Shape{2, 2}},
                        {"pad", Shape{1, 1}},
                        {"pool_type", std::string(type)}},
                       tensors({{2, channels, 14, 15}}, dtype)},
                      {},
                      {},
                      start}
              .expect_equal(type);
        PlannedCall{{"Pooling",
                     {{"global_pool", true}, {"pool_type", std::string(type)}},
                     tensors({{2, 40, 7, 9}}, dtype)},
                    {},
                    {},
                    start}
            .expect_equal("global");
      }
}

TEST(PlannedKernel, PoolingGradients) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const char* type : {"max", "avg"}) {
        const Shape data{2, 19, 14, 15}, output{2, 19, 7, 8};
        std::vector<Tensor> in = tensors({output}, dtype);
        if (std::string_view(type) == "max") in.push_back(random_tensor({data, dtype}, 9));
        PlannedCall{{"_pooling_backward",
                     {{"kernel", Shape{3, 3}},
                      {"stride", Shape{2, 2}},
                      {"pad", Shape{1, 1}},
                      {"pool_type", std::string(type)},
                      {"data_shape", data}},
                     in},
                    {},
                    {},
                    start,
                    true}
            .expect_equal(type);
      }
}

std::vector<Tensor> batch_norm_inputs(const Shape& data, DType dtype) {
  const Shape c{data[1]};
  const DType f32 = DType::kFloat32;
  return {random_tensor({data, dtype}, 1), random_tensor({c, f32}, 2, 0.5, 1.5),
          random_tensor({c, f32}, 3), random_tensor({c, f32}, 4),
          random_tensor({c, f32}, 5, 0.5, 1.5)};
}

TEST(PlannedKernel, BatchNorm) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const bool training : {false, true})
        for (const bool fix_gamma : {false, true}) {
          const auto fresh = [&] { return batch_norm_inputs({3, 19, 6, 7}, dtype); };
          const Attrs attrs = {{"fix_gamma", fix_gamma}, {"eps", 1e-3}};
          PlannedCall native{{"BatchNorm", attrs, fresh()}, {}, {}, start, training};
          PlannedCall planned{{"BatchNorm", attrs, fresh()}, {}, {}, start, training};
          if (!onednn::computes_in(dtype)) continue;
          const auto got = planned.run_planned();
          // The native kernel adds up in doubles and is as fast.
          ASSERT_EQ(got.has_value(), !(training && start == Start::kPlain));
          if (!got) continue;
          const auto expected = native.run_native();
          for (size_t i = 0; i < 3; ++i)
            EXPECT_LE(relative_error((*got)[i], expected[i]), test::tolerance(dtype)) << i;
          for (size_t i = 3; i < 5; ++i)  // running statistics
            EXPECT_LE(relative_error(planned.call.inputs[i], native.call.inputs[i]), 1e-4) << i;
          if (!training) {
            PlannedCall fused{{"BatchNorm", attrs, fresh()}, {activation("relu", {})}, {}, start};
            fused.expect_equal("relu");
          }
        }
}

TEST(PlannedKernel, BatchNormGradients) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const bool batch_stats : {false, true})
        for (const bool fix_gamma : {false, true}) {
          const Shape data{3, 19, 6, 7};
          const auto in = batch_norm_inputs(data, dtype);
          PlannedCall call{{"_batch_norm_backward",
                            {{"fix_gamma", fix_gamma}, {"batch_stats", batch_stats}},
                            {random_tensor({data, dtype}, 8), in[0], in[1], in[3], in[4]}},
                           {},
                           {},
                           start,
                           true};
          if (batch_stats && start == Start::kPlain)
            EXPECT_FALSE(call.run_planned().has_value());
          else
            call.expect_equal(str("batch_stats ", batch_stats), 5);
        }
}

// Shapes: whole registers of channels and not, more rows than one piece has.
const Shape kNormShapes[] = {{3, 32, 6, 7}, {3, 19, 6, 7}, {2, 48, 23, 29}};

bool takes_norm(const Shape& shape, Start start) {
  return onednn::has_norm() && start != Start::kPlain &&
         (start == Start::kChannelsLast || shape[1] % 16 == 0);
}

TEST(PlannedKernel, BatchNormWithAdditionAndRelu) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const Shape& shape : kNormShapes)
        for (const char* op : {"BatchNorm", "_batch_norm_relu", "_batch_norm_add_relu"})
          for (const bool fix_gamma : {false, true})
            for (const bool global : {false, true}) {
              if (!takes_norm(shape, start) || !onednn::computes_in(dtype)) continue;
              const auto fresh = [&] {
                auto in = batch_norm_inputs(shape, dtype);
                // A mean far from zero: sums of squares alone would cancel.
                for (int64_t i = 0; i < shape.size(); ++i) in[0].set(i, in[0].at(i) + 40);
                if (std::string(op) == "_batch_norm_add_relu")
                  in.push_back(random_tensor({shape, dtype}, 12));
                return in;
              };
              const Attrs attrs = {{"fix_gamma", fix_gamma}, {"use_global_stats", global}};
              PlannedCall native{{op, attrs, fresh()}, {}, {}, start, true};
              PlannedCall planned{{op, attrs, fresh()}, {}, {}, start, true};
              const auto expected = native.run_native();
              const auto got = planned.run_planned();
              ASSERT_TRUE(got.has_value()) << op;
              for (size_t i = 0; i < 3; ++i)
                EXPECT_LE(relative_error((*got)[i], expected[i]), 5 * test::tolerance(dtype))
                    << op << " output " << i << ", " << shape;
              for (size_t i = 3; i < 5; ++i)  // running statistics
                EXPECT_LE(relative_error(planned.call.inputs[i], native.call.inputs[i]), 1e-5)
                    << op << " " << i;
            }
}

TEST(PlannedKernel, BatchNormGradientsThroughAdditionAndRelu) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const Shape& shape : kNormShapes)
        for (const bool batch_stats : {false, true})
          for (const bool fix_gamma : {false, true}) {
            if (!takes_norm(shape, start) || !onednn::computes_in(dtype)) continue;
            const auto in = batch_norm_inputs(shape, dtype);
            const Tensor grad = random_tensor({shape, dtype}, 8),
                         output = random_tensor({shape, dtype}, 9);
            const Attrs attrs = {{"fix_gamma", fix_gamma}, {"batch_stats", batch_stats}};
            const std::string what = str("batch_stats ", batch_stats);
            PlannedCall{{"_batch_norm_backward", attrs, {grad, in[0], in[1], in[3], in[4]}},
                        {},
                        {},
                        start,
                        true}
                .expect_equal(what, 5);
            PlannedCall{
                {"_batch_norm_relu_backward", attrs, {grad, in[0], in[1], in[2], in[3], in[4]}},
                {},
                {},
                start,
                true}
                .expect_equal(what, 5);
            PlannedCall{{"_batch_norm_add_relu_backward",
                         attrs,
                         {grad, output, in[0], in[1], in[3], in[4]}},
                        {},
                        {},
                        start,
                        true}
                .expect_equal(what, 5);
          }
}

TEST(PlannedKernel, Lrn) {
  for (const Start start : kStarts)
    PlannedCall{
        {"LRN", {{"nsize", int64_t{5}}}, tensors({{2, 23, 9, 11}}, DType::kFloat32)}, {}, {}, start}
        .expect_equal("lrn");
}

TEST(PlannedKernel, ElementWise) {
  const Shape full{2, 19, 5, 6};
  for (const DType dtype : kTypes)
    for (const Start start : {Start::kChannelsLast, Start::kBlocked}) {
      const auto expect = [&](const char* op, const Attrs& attrs,
                              const std::vector<Shape>& shapes) {
        PlannedCall call{{op, attrs, tensors(shapes, dtype)}, {}, {}, start};
        call.expect_equal(op);
      };
      expect("Activation", {{"act_type", std::string("tanh")}}, {full});
      expect("LeakyReLU", {{"act_type", std::string("gelu")}}, {full});
      expect("elemwise_add", {}, {full, full});
      expect("broadcast_mul", {}, {full, {1, 19, 1, 1}});
      expect("broadcast_sub", {}, {full, {1, 1, 1, 1}});
      expect("add_n", {}, {full, full, full});
      // Padded: only operators with f(0) = 0 that oneDNN has; its relu loses NaN.
      if (start == Start::kBlocked) continue;
      expect("relu", {}, {full});
      expect("exp", {}, {full});
      expect("Activation", {{"act_type", std::string("softsign")}}, {full});
      expect("_plus_scalar", {{"scalar", 2.0}}, {full});
    }
}

TEST(PlannedKernel, PaddedMemoryIsNotTouchedByPlainKernels) {
  std::vector<Layout> layouts;
  const PlannedCall call{
      {"exp", {}, tensors({{2, 19, 5, 6}}, DType::kFloat32)}, {}, {}, Start::kBlocked};
  EXPECT_FALSE(call.plan(layouts).has_value());
}

TEST(PlannedKernel, Concat) {
  for (const DType dtype : kTypes)
    for (const Start start : {Start::kChannelsLast, Start::kBlocked})
      for (const int axis : {0, 1, 2, 3}) {
        Shape a{2, 19, 5, 6}, b = a, c = a;
        b[axis] = 3;
        c[axis] = 20;
        PlannedCall{{"Concat", {{"dim", int64_t{axis}}}, tensors({a, b, c}, dtype)}, {}, {}, start}
            .expect_equal(str("axis ", axis));
      }
}

TEST(Layout, OnePixelIsPlainInEveryLayout) {
  for (const int64_t channels : {16, 48})
    for (const Start start : kStarts)
      EXPECT_TRUE(layout_for({{3, channels, 1, 1}, DType::kFloat32}, start).is_plain());
  EXPECT_FALSE(layout_for({{3, 17, 1, 1}, DType::kFloat32}, Start::kBlocked).is_plain());
  EXPECT_TRUE(same_layout(layout_for({{3, 16, 4, 4}, DType::kFloat32}, Start::kBlocked),
                          layout_for({{3, 16, 4, 4}, DType::kFloat32}, Start::kChannelsLast)));
  EXPECT_FALSE(same_layout(layout_for({{3, 32, 4, 4}, DType::kFloat32}, Start::kBlocked),
                           layout_for({{3, 32, 4, 4}, DType::kFloat32}, Start::kChannelsLast)));
}

}  // namespace
}  // namespace mxlite
