#include "cpp/ops/nn/convolution_batch_norm.h"

#include "cpp/base/str.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using Params = ConvolutionBatchNormParams;
enum Input : int { kData, kWeight, kGamma, kBeta, kMovingMean, kMovingVar, kAdded };
enum Output : int { kResult, kMean, kInvStd, kConvolved, kSums, kBits };

Specs infer_convolution_batch_norm(const Params& p, std::span<const TensorSpec> in) {
  const ConvolutionParams& convolution = p;
  const TensorSpec convolved = ops().get("Convolution").infer(&convolution, in.first(2))[0];
  std::vector<TensorSpec> norm_inputs{convolved};
  norm_inputs.insert(norm_inputs.end(), in.begin() + kGamma, in.end());
  const BatchNormParams norm = p.norm();
  const Specs of_norm = ops().get(p.norm_op()).infer(&norm, norm_inputs);
  const TensorSpec sums{Shape{2, p.num_filter}, DType::kFloat32};
  const TensorSpec bits = p.added ? of_norm[3] : TensorSpec{Shape{0}, DType::kUInt8};
  return {of_norm[0], of_norm[1], of_norm[2], convolved, sums, bits};
}

// Returns gradients of the convolution's result, gamma, beta and the added array, if any. Emits the
// same operators as for separate nodes, so the values are the same, too.
std::vector<ValueRef> norm_gradients(GradBuilder& g, const Params& p) {
  auto params = std::make_shared<BatchNormGradParams>();
  static_cast<BatchNormParams&>(*params) = p.norm();
  params->batch_stats = true;
  std::vector<ValueRef> inputs{g.output_grad(kResult)};
  if (p.added) inputs.push_back(g.output(kBits));
  inputs.push_back(g.output(kConvolved));
  inputs.push_back(g.input(kGamma));
  if (p.relu && !p.added) inputs.push_back(g.input(kBeta));
  inputs.push_back(g.output(kMean));
  inputs.push_back(g.output(kInvStd));
  return g.emit_all(
      str(p.norm_op() == std::string_view("BatchNorm") ? "_batch_norm" : p.norm_op(), "_backward"),
      inputs, ParamsRef(std::move(params)));
}

std::vector<ValueRef> convolution_batch_norm_gradient(GradBuilder& g) {
  const auto& p = g.params<Params>();
  const std::vector<ValueRef> of_norm = norm_gradients(g, p);
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  grads[kGamma] = of_norm[1];
  grads[kBeta] = of_norm[2];
  if (p.added) grads[kAdded] = of_norm[3];
  const ConvolutionParams& convolution = p;
  if (g.needs_grad(kData)) {
    auto params = std::make_shared<ConvolutionDataGradParams>();
    static_cast<ConvolutionParams&>(*params) = convolution;
    params->data_shape = g.input_spec(kData).shape;
    grads[kData] = g.emit("_convolution_backward_data", {of_norm[0], g.input(kWeight)},
                          ParamsRef(std::move(params)));
  }
  if (g.needs_grad(kWeight))
    grads[kWeight] = g.emit("_convolution_backward_weight", {of_norm[0], g.input(kData)},
                            ParamsRef(std::make_shared<ConvolutionParams>(convolution)));
  return grads;
}

}  // namespace

static const Registration convolution_batch_norm_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<Params>("_convolution_batch_norm")
              .internal()
              .doc("Convolution, then BatchNorm by statistics of the batch, an optional addition, "
                   "and optional relu.")
              .inputs({"data", "weight", "gamma", "beta", "moving_mean", "moving_var", "added"})
              .input_count([](const Params& p) { return p.added ? 7 : 6; })
              .outputs(6)
              .visible_outputs(1)
              .infer(infer_convolution_batch_norm)
              .gradient(convolution_batch_norm_gradient)
              .mutates({kMovingMean, kMovingVar}));
});

}  // namespace mxlite
