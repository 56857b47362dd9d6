#include "cpp/ops/cuda/matrix/gemm.h"
#include "cpp/ops/cuda/nn/convolution_plan.h"
#include "cpp/ops/cuda/quantization/pack.h"
#include "cpp/ops/cuda/quantization/tensor_cores.cuh"
#include "cpp/ops/dispatch_line.h"

namespace mxlite::cuda {
namespace {

using namespace quantization;  // NOLINT: this file uses its plans of products

// Computes the number that is added to all sums of a filter: its bias, plus the sum of its weights
// times 128 for shifted data. One warp per filter.
__global__ void find_addends(int64_t filters, int64_t products, const int8_t* shifted_weight,
                             BiasUnits b, int32_t* addends) {
  const int64_t lane = threadIdx.x % kWarp;
  const float units = b.bias ? b.get() : 0;
  for (int64_t i = global_index() / kWarp; i < filters; i += grid_stride() / kWarp) {
    uint32_t sum = 0;
    if (shifted_weight)
      for (int64_t k = lane; k < products; k += kWarp)
        sum += static_cast<uint32_t>(int32_t{shifted_weight[i * products + k]} * kShift);
    sum = warp_sum(sum);
    if (lane != 0) continue;
    if (b.bias) sum += static_cast<uint32_t>(b.at(i, units));
    addends[i] = static_cast<int32_t>(sum);
  }
}

// Returns null if nothing is added.
const int32_t* make_addends(KernelContext& ctx, int64_t filters, int64_t products,
                            const int8_t* shifted_weight, const BiasUnits& bias, int32_t* addends) {
  if (!bias.bias && !shifted_weight) return nullptr;
  launch_items(ctx, find_addends, filters * kWarp, filters, products, shifted_weight, bias,
               addends);
  return addends;
}

int64_t elements(const ConvolutionProblem::Numbers& dims, int ndim) {
  int64_t n = 1;
  for (int i = 0; i < ndim; ++i) n *= dims[static_cast<size_t>(i)];
  return n;
}

size_t bytes_if(bool wanted, int64_t elements, DType dtype = DType::kInt8) {
  return wanted ? static_cast<size_t>(elements) * dtype_size(dtype) : 0;
}

// Describes the images of a convolution's data, and the border of their copy.
PackedImages images_of(const Int8Convolution& c, int64_t channels) {
  const ConvolutionProblem& q = c.problem;
  PackedImages p{
      .images = q.data[0], .channels = channels, .padded = q.data[1], .shift = c.shifted};
  for (int i = 0; i < q.ndim - 2; ++i) {
    const auto from = static_cast<size_t>(i);
    const int to = 5 - q.ndim + i;  // the last axes of three
    p.border[to] = c.border[from];
    p.size[to] = q.data[from + 2] - 2 * c.border[from];
  }
  return p;
}

// Operands must have the memory layout of the problem.
bool convolve_packed(KernelContext& ctx, const ConvolutionProblem& problem, const void* data,
                     const void* weight, int32_t* sums) {
  const Workspace workspace = gemm_workspace(ctx);
  ConvolutionProblem own = problem;
  own.workspace_bytes = std::min(own.workspace_bytes, static_cast<int64_t>(workspace.bytes));
  own.alignment = common_alignment({data, weight, sums});
  ConvolutionOperands operands;
  operands.data = const_cast<void*>(data);
  operands.weight = const_cast<void*>(weight);
  operands.output = sums;
  operands.workspace = workspace.data;
  return run_planned_convolution(ctx, own, operands);
}

}  // namespace

bool multiply_on_tensor_cores(KernelContext& ctx, const FullyConnectedParams& p,
                              const BiasUnits& bias, Inputs in, Outputs out) {
  const Int8Gemm g = plan_int8_gemm(p, in[0].shape, in[0].dtype, common_alignment({in[0].data}),
                                    common_alignment({in[1].data}));
  if (g.why_loops) {
    print_dispatch("_contrib_quantized_fully_connected", "cuBLASLt", g.why_loops);
    return false;
  }
  ScratchPlan scratch;
  const size_t data_at = scratch.add(bytes_if(g.copies_data, g.rows * g.padded_columns));
  const size_t weight_at =
      scratch.add(bytes_if(g.copies_weight, g.padded_hidden * g.padded_columns));
  const size_t sums_at =
      scratch.add(bytes_if(g.copies_sums, g.rows * g.padded_hidden, DType::kInt32));
  const bool adds = bias.bias || g.shifted;
  const size_t addends_at = scratch.add(bytes_if(adds, g.hidden, DType::kInt32));
  void* const block = scratch.bytes() > 0 ? ctx.scratch(scratch.bytes()) : nullptr;

  const void *data = in[0].data, *weight = in[1].data;
  if (g.copies_data) {
    pack_rows(
        ctx, {.rows = g.rows, .columns = g.columns, .padded = g.padded_columns, .shift = g.shifted},
        data, part<void>(block, data_at));
    data = part<void>(block, data_at);
  }
  if (g.copies_weight) {
    pack_rows(ctx,
              {.rows = g.hidden,
               .columns = g.columns,
               .padded = g.padded_columns,
               .zero_rows = g.padded_hidden - g.hidden},
              weight, part<void>(block, weight_at));
    weight = part<void>(block, weight_at);
  }
  int32_t* const sums = g.copies_sums ? part<int32_t>(block, sums_at) : out[0].as<int32_t>();
  const Gemm product{.dtype = DType::kInt8,
                     .trans_b = true,
                     .m = g.rows,
                     .n = g.padded_hidden,
                     .k = g.padded_columns,
                     .lda = g.padded_columns,
                     .ldb = g.padded_columns,
                     .ldc = g.padded_hidden};
  if (!gemm_to_int32(ctx, product, {data, weight, sums})) return false;
  const int32_t* const addends =
      make_addends(ctx, g.hidden, g.columns, g.shifted ? in[1].as<int8_t>() : nullptr, bias,
                   adds ? part<int32_t>(block, addends_at) : nullptr);
  unpack_rows(ctx, g.rows, g.hidden, g.padded_hidden, sums, addends, out[0].as<int32_t>());
  return true;
}

bool convolve_on_tensor_cores(KernelContext& ctx, const ConvolutionParams& p, const BiasUnits& bias,
                              Inputs in, Outputs out) {
  const Int8Convolution c = plan_int8_convolution(p, in[0].shape, out[0].shape, in[0].dtype);
  if (c.why_loops) {
    print_dispatch("_contrib_quantized_conv", "cuDNN", c.why_loops);
    return false;
  }
  const ConvolutionProblem& q = c.problem;
  const int64_t channels = in[0].shape[1];
  const SpatialDims result = spatial_dims(out[0].shape, false);
  const SpatialWindow window = p.window();
  ScratchPlan scratch;
  const size_t data_at = scratch.add(bytes_if(true, elements(q.data, q.ndim)));
  const size_t weight_at = scratch.add(bytes_if(true, elements(q.weight, q.ndim)));
  const size_t sums_at = scratch.add(bytes_if(true, elements(q.output, q.ndim), DType::kInt32));
  const bool adds = bias.bias || c.shifted;
  const size_t addends_at = scratch.add(bytes_if(adds, p.num_filter, DType::kInt32));
  void* const block = ctx.scratch(scratch.bytes());

  PackedImages weight{.images = p.num_filter,
                      .channels = channels,
                      .padded = q.weight[1],
                      .zero_images = q.weight[0] - p.num_filter};
  for (int i = 0; i < 3; ++i) weight.size[i] = window.kernel[i];
  pack_images(ctx, images_of(c, channels), in[0].data, part<void>(block, data_at));
  pack_images(ctx, weight, in[1].data, part<void>(block, weight_at));
  auto* const sums = part<int32_t>(block, sums_at);
  if (!convolve_packed(ctx, q, part<void>(block, data_at), part<void>(block, weight_at), sums))
    return false;
  const int64_t products = channels * window.kernel_size();
  const int32_t* const addends =
      make_addends(ctx, p.num_filter, products, c.shifted ? in[1].as<int8_t>() : nullptr, bias,
                   adds ? part<int32_t>(block, addends_at) : nullptr);
  unpack_images(ctx, result.batch, result.spatial_size(), p.num_filter, q.output[1], sums, addends,
                out[0].as<int32_t>());
  return true;
}

bool convolve_last_on_tensor_cores(KernelContext& ctx, const Int8Convolution& c,
                                   const BiasUnits& bias, const void* data, const int8_t* weight,
                                   int32_t* sums) {
  const ConvolutionProblem& q = c.problem;
  const int64_t filters = q.output[1], weights = elements(q.weight, q.ndim) / filters;
  const bool adds = bias.bias || c.shifted;
  ScratchPlan scratch;
  const size_t data_at = scratch.add(bytes_if(c.shifted, elements(q.data, q.ndim)));
  const size_t addends_at = scratch.add(bytes_if(adds, filters, DType::kInt32));
  void* const block = adds ? ctx.scratch(scratch.bytes()) : nullptr;
  if (c.shifted) {
    shift_images(ctx, images_of(c, q.data[1]), data, part<void>(block, data_at));
    data = part<void>(block, data_at);
  }
  if (!convolve_packed(ctx, q, data, weight, sums)) return false;
  const int32_t* const addends =
      make_addends(ctx, filters, weights, c.shifted ? weight : nullptr, bias,
                   adds ? part<int32_t>(block, addends_at) : nullptr);
  unpack_rows(ctx, elements(q.output, q.ndim) / filters, filters, filters, sums, addends, sums);
  return true;
}

}  // namespace mxlite::cuda
