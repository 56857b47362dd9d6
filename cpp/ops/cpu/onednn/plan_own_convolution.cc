// Convolutions with our own kernels, for float32 if filters fill whole registers: Winograd for 3 x
// 3 and 5 x 5, and a direct kernel for first layers.
#include "cpp/core/threads.h"
#include "cpp/ops/cpu/nn/stem.h"
#include "cpp/ops/cpu/nn/winograd/winograd.h"
#include "cpp/ops/cpu/onednn/convolution.h"
#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/cpu/onednn/post_ops.h"
#include "cpp/ops/cpu/processor.h"
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/weight_forms.h"

namespace mxlite::onednn {
namespace {

// Measured with benchmarks/ops/conv_bench: below these tile counts, reading the transformed weights
// (four times as large as plain 3 x 3 weights) takes longer than the multiplications that are
// saved.
constexpr int64_t kLeastTiles = 12;  // if weights are transformed once; otherwise
                                     // cpu::winograd_least_tiles() applies
// With at least kEnoughTiles tiles, transforming the weights in every call costs a few percent and
// saves the memory of a transformed copy. With batches of at least kLargeBatch, where memory is
// scarce, kEnoughTilesOfBatch tiles suffice.
constexpr int64_t kEnoughTiles = 512, kEnoughTilesOfBatch = 128, kLargeBatch = 8;

std::optional<Plan> plan_winograd(const PlanRequest& r, const SimplePostOps& post) {
  const auto& p = *static_cast<const ConvolutionParams*>(r.params);
  const Shape &data = r.inputs[0].shape, &weight = r.inputs[1].shape;
  const SpatialWindow w = p.window();
  const auto both = [](const int64_t(&v)[3], int64_t x) { return v[1] == x && v[2] == x; };
  if (!(both(w.kernel, 3) || both(w.kernel, 5)) || !both(w.stride, 1) || !both(w.dilate, 1) ||
      data[1] % 16 != 0)
    return std::nullopt;
  const PixelLayout pixels = pixel_layout(r.layouts[0], data);
  cpu::WinogradProblem problem{.batch = data[0],
                               .height = data[2],
                               .width = data[3],
                               .channels = data[1],
                               .filters = p.num_filter,
                               .pad_height = w.pad[1],
                               .pad_width = w.pad[2],
                               .kernel = static_cast<int>(w.kernel[1]),
                               .data_blocked = pixels.blocked,
                               .output_blocked = pixels.blocked};
  problem.threads = cpu::winograd_threads(problem);
  const int64_t tiles = problem.tiles();
  const bool each_call = !r.constant[1] || CompactWeights::wanted() || tiles >= kEnoughTiles ||
                         (data[0] >= kLargeBatch && tiles >= kEnoughTilesOfBatch);
  if (tiles < (each_call ? cpu::winograd_least_tiles() : kLeastTiles)) return std::nullopt;
  Plan plan;
  const Shape& shape = r.outputs[0].shape;
  const Layout output =
      make_layout(pixels.blocked ? blocked_of(shape) : channels_last_of(shape, DType::kFloat32));
  plan.inputs = {pixels.layout,
                 each_call ? make_layout(winograd_weight_desc(weight)) : winograd_layout(weight)};
  plan.outputs = {output};
  const bool bias = !p.no_bias;
  if (bias) plan.inputs.push_back({nullptr, r.inputs[2].bytes()});
  if (post.add) {
    plan.inputs.push_back(output);
    plan.required_inplace.push_back({bias ? 3 : 2, 0});
  }
  plan.scratch_bytes = cpu::winograd_scratch_bytes(problem, !each_call);
  plan.run = [problem, each_call, bias, post](KernelContext&, std::span<void* const> in,
                                              std::span<void* const> out, void* scratch) {
    const auto input = [&](size_t i) { return static_cast<const float*>(in[i]); };
    cpu::winograd_convolution(problem,
                              {.data = input(0),
                               .weight = each_call ? input(1) : nullptr,
                               .transformed = each_call ? nullptr : input(1),
                               .bias = bias ? input(2) : nullptr,
                               .output = static_cast<float*>(out[0]),
                               .add = post.add,
                               .relu = post.relu},
                              scratch);
  };
  return plan;
}

// Requires AVX-512. With AVX2 (Zen 3, GFLOP/s of one core), oneDNN's kernel reached 98 for 7 x 7
// with stride 2 and 82 for 3 x 3; mxlite's kernel reached 88 and 67.
std::optional<Plan> plan_stem(const PlanRequest& r, const SimplePostOps& post) {
  constexpr int64_t kMostChannels = 4;
  constexpr int64_t kMostTerms = 4096;  // number of terms of a sum, which are added sequentially
  const auto& p = *static_cast<const ConvolutionParams*>(r.params);
  const Shape &data = r.inputs[0].shape, &output = r.outputs[0].shape;
  if (!cpu::has_avx512() || post.add || data[1] > kMostChannels || !r.layouts[0].is_plain())
    return std::nullopt;
  const SpatialWindow w = p.window();
  if (data[1] * w.kernel[1] * w.kernel[2] > kMostTerms) return std::nullopt;
  const double products = count_products(plain_desc(r.outputs[0]), plain_desc(r.inputs[1]));
  const cpu::StemProblem problem{.batch = data[0],
                                 .channels = data[1],
                                 .height = data[2],
                                 .width = data[3],
                                 .filters = p.num_filter,
                                 .kernel = {w.kernel[1], w.kernel[2]},
                                 .stride = {w.stride[1], w.stride[2]},
                                 .dilate = {w.dilate[1], w.dilate[2]},
                                 .pad = {w.pad[1], w.pad[2]},
                                 .out_height = output[2],
                                 .out_width = output[3],
                                 .threads = threads_for(product_work(products))};
  Plan plan;
  const int64_t row = w.kernel[2] * p.num_filter;
  plan.inputs = {{nullptr, r.inputs[0].bytes()},
                 make_layout(strided_desc(dims(r.inputs[1].shape), dnnl::memory::data_type::f32,
                                          {1, w.kernel[1] * row, row, p.num_filter}))};
  plan.outputs = {make_layout(channels_last_of(output, DType::kFloat32))};
  const bool bias = !p.no_bias;
  if (bias) plan.inputs.push_back({nullptr, r.inputs[2].bytes()});
  plan.scratch_bytes = cpu::stem_scratch_bytes(problem);
  plan.run = [problem, bias, relu = post.relu](KernelContext&, std::span<void* const> in,
                                               std::span<void* const> out, void* scratch) {
    cpu::stem_convolution(problem,
                          {.data = static_cast<const float*>(in[0]),
                           .weight = static_cast<const float*>(in[1]),
                           .bias = bias ? static_cast<const float*>(in[2]) : nullptr,
                           .output = static_cast<float*>(out[0]),
                           .relu = relu},
                          scratch);
  };
  return plan;
}

}  // namespace

std::optional<Plan> plan_own_convolution(const PlanRequest& r) {
  const auto& p = *static_cast<const ConvolutionParams*>(r.params);
  if (!is_plannable(r) || r.inputs[0].dtype != DType::kFloat32 || r.inputs[0].shape.ndim() != 4 ||
      p.channels_last() || p.num_group != 1 || p.num_filter % 16 != 0)
    return std::nullopt;
  const auto post = simple_post_ops(r.post_ops);
  if (!post) return std::nullopt;
  if (auto plan = plan_winograd(r, *post)) return plan;
  return plan_stem(r, *post);
}

}  // namespace mxlite::onednn
