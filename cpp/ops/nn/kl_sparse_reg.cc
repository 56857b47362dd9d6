#include "cpp/ops/nn/kl_sparse_reg.h"

#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kKlSparseRegOp = "IdentityAttachKLSparseReg";

Specs infer_kl_sparse_reg(const KlSparseRegParams&, std::span<const TensorSpec> in) {
  check_floating(kKlSparseRegOp, "data", in[0]);
  check_min_ndim(kKlSparseRegOp, in[0].shape, 2);
  check_same_dtype(kKlSparseRegOp, "moving_avg", in[1], in[0].dtype);
  check_param_shape(kKlSparseRegOp, "moving_avg", in[1], Shape{in[0].shape[1]}, in[0].shape);
  return Specs{in[0], in[1]};
}

// Returns output_grad + penalty * ((1 - target) / (1 - mean) - target / mean). The second term is
// the derivative of the Kullback-Leibler divergence of two Bernoulli distributions.
std::vector<ValueRef> kl_sparse_reg_gradient(GradBuilder& g) {
  const auto& p = g.params<KlSparseRegParams>();
  const double target = static_cast<double>(p.sparseness_target);
  Shape per_channel = Shape::filled(g.input_spec(0).shape.ndim(), 1);
  per_channel[1] = g.input_spec(1).shape[0];
  const ValueRef mean = g.reshape(g.output(1), per_channel);
  const ValueRef rest = g.emit("_rminus_scalar", {mean}, {{"scalar", 1.0}});
  const ValueRef term = g.sub(g.emit("_rdiv_scalar", {rest}, {{"scalar", 1 - target}}),
                              g.emit("_rdiv_scalar", {mean}, {{"scalar", target}}));
  return {g.add(g.output_grad(0), g.mul_scalar(term, static_cast<double>(p.penalty))), ValueRef{}};
}

}  // namespace

static const Registration kl_sparse_reg_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<KlSparseRegParams>(kKlSparseRegOp)
          .doc("Returns data, the output of a sigmoid; backward adds the gradient of a penalty on "
               "the KL divergence between each feature's mean activation and sparseness_target.")
          .shapes("data: (N, ...), moving_avg: (features,) -> shape of data")
          .inputs({"data", "moving_avg"})
          .outputs(2)
          .visible_outputs(1)
          .infer(infer_kl_sparse_reg)
          .complete([](const KlSparseRegParams&, std::span<TensorSpec> in) {
            if (in[0].shape.ndim() >= 2) complete_shape(in[1], Shape{in[0].shape[1]});
          })
          .gradient(kl_sparse_reg_gradient)
          .starts_gradient()
          .mutates({1}, /*only_in_training=*/true)
          .training_dependent()
          .amp(AmpClass::kFloat32)
          .symbol({.output_names = {"output"}})
          .total_outputs(1)
          .refine(refine_like_first));
});

}  // namespace mxlite
