#include "cpp/ops/nn/pooling.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {

// Gradient rule for max and lp pooling (pooling_gradient.cc); returns nothing for other types.
std::vector<ValueRef> composite_pooling_gradient(GradBuilder& g);

SpatialWindow PoolingParams::window(const Shape& data) const {
  if (!global_pool) return make_window(kernel, stride, Shape{}, pad);
  const SpatialDims d = spatial_dims(data, channels_last());
  SpatialWindow w;
  std::copy(d.size, d.size + 3, w.kernel);
  return w;
}

namespace {

constexpr const char* kPoolingOp = "Pooling";

int64_t output_size(const PoolingParams& p, int64_t size, int64_t kernel, int64_t stride,
                    int64_t pad) {
  if (!is_known(size)) return kUnknownDim;
  const int64_t floor_count = window_count(kPoolingOp, size, kernel, stride, 1, pad);
  const int64_t rest = size + 2 * pad - kernel;
  switch (p.pooling_convention) {
    case PoolingConvention::kFull:
      return (rest + stride - 1) / stride + 1;
    case PoolingConvention::kSame:
      return (size + 2 * pad + stride - 1) / stride;
    case PoolingConvention::kValid:
      break;
  }
  return floor_count;
}

Specs infer_pooling_specs(const PoolingParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  MX_CHECK_DTYPE(in[0].dtype != DType::kBool, kPoolingOp,
                 ": data must have a numeric dtype, got bool");
  check_spatial_data(kPoolingOp, data, p.global_pool ? Shape::filled(data.ndim() - 2, 1) : p.kernel,
                     p.layout);
  if (p.pool_type == PoolType::kLp) {
    check_floating(kPoolingOp, "data", in[0]);
    MX_CHECK(p.p_value && *p.p_value >= 1 && *p.p_value <= 3, kPoolingOp,
             ": p_value must be 1, 2 or 3 with pool_type 'lp', got ",
             attr_text(AttrTraits<decltype(p.p_value)>::to(p.p_value)));
  }
  const int spatial = data.ndim() - 2;
  Shape size = Shape::filled(spatial, 1);
  if (!p.global_pool) {
    // As in MXNet 1.x, pad may have several entries for a 1-D kernel; only the first entry is used.
    const bool surplus = p.kernel.ndim() == 1 && p.pad.ndim() > 1;
    check_window(kPoolingOp, p.kernel, p.stride, Shape{}, surplus ? Shape{p.pad[0]} : p.pad);
    const SpatialWindow w = p.window(data);
    for (int i = 0, at = 3 - spatial; i < spatial; ++i, ++at) {
      MX_CHECK(w.pad[at] < w.kernel[at], kPoolingOp, ": entries of pad must be below kernel ",
               p.kernel, ", got ", p.pad);
      size[i] = output_size(p, data[i + (p.channels_last() ? 1 : 2)], w.kernel[at], w.stride[at],
                            w.pad[at]);
    }
  }
  const int64_t channels = data[channel_axis(data.ndim(), p.channels_last())];
  return Specs{
      TensorSpec{spatial_shape(data[0], channels, size.span(), p.channels_last()), in[0].dtype}};
}

int backward_inputs(PoolType type) {
  return type == PoolType::kLp ? 3 : type == PoolType::kMax ? 2 : 1;
}

std::vector<ValueRef> pooling_gradient(GradBuilder& g) {
  auto params = std::make_shared<PoolingGradParams>();
  static_cast<PoolingParams&>(*params) = g.params<PoolingParams>();
  params->data_shape = g.input_spec(0).shape;
  std::vector<ValueRef> inputs = {g.output_grad(0)};
  const int count = backward_inputs(params->pool_type);
  if (count >= 2) inputs.push_back(g.input(0));
  if (count >= 3) inputs.push_back(g.output(0));
  return {g.emit_all("_pooling_backward", inputs, ParamsRef(std::move(params)))[0]};
}

// Average and sum pooling are linear, so the gradient of their backward is the pooling itself.
std::vector<ValueRef> backward_gradient(GradBuilder& g) {
  const auto& p = g.params<PoolingGradParams>();
  MX_CHECK_KIND(backward_inputs(p.pool_type) == 1, ErrorKind::kNotSupported,
                "Pooling: the gradient of its gradient is not supported for pool_type max and lp");
  ParamsRef params = std::make_shared<PoolingParams>(p);
  return {g.emit(kPoolingOp, {g.output_grad(0)}, std::move(params))};
}

}  // namespace

static const Registration pooling_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<PoolingParams>(kPoolingOp)
              .doc("Maximum, average, sum or p-norm of the elements of a window that slides over "
                   "the spatial axes.")
              .shapes("(N, C, [D, H,] W) -> (N, C, [oD, oH,] oW)")
              .alias({"Pooling_v1"})
              .infer(infer_pooling_specs)
              .gradient(pooling_gradient)
              .composite_gradient(composite_pooling_gradient)
              .drawn("pooling", "{pool_type}, {kernel}/{stride}")
              .symbol({.output_names = {"output"}, .names_single_input = true})
              .total_outputs(
                  [](const PoolingParams& p, int) { return p.pool_type == PoolType::kMax ? 2 : 1; })
              .refine(refine_batch_size));
  ops.add(OpBuilder<PoolingGradParams>("_pooling_backward")
              .internal()
              .doc("Gradient of Pooling.")
              .inputs({"output_grad", "data", "output"})
              .input_count([](const PoolingGradParams& p) { return backward_inputs(p.pool_type); })
              .infer([](const PoolingGradParams& p, std::span<const TensorSpec> in) {
                return Specs{TensorSpec{p.data_shape, in[0].dtype}};
              })
              .gradient(backward_gradient));
});

}  // namespace mxlite
