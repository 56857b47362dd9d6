// Weight updates (1.x names and formulas). States are inputs that the kernel changes; the new
// weight is the output, usually given as out=weight.
#include "cpp/ops/optimizer/params.h"

namespace mxlite {
namespace optimizer {
namespace {

// Inputs after weight and grad. "weight32" and everything else of a mixed-precision update is
// float32; without it all arrays have the weight's dtype.
struct Row {
  const char* name;
  const char* doc;
  std::vector<std::string> states;
  bool mixed = false;
};

void check_update(const std::string& op, const std::vector<std::string>& names,
                  std::span<const TensorSpec> in, bool mixed) {
  const TensorSpec& weight = in[0];
  MX_CHECK_DTYPE(is_floating(weight.dtype), op, ": weight of dtype ", weight.dtype,
                 " given, a floating type expected");
  for (size_t i = 1; i < in.size(); ++i) {
    MX_CHECK_SHAPE(in[i].shape == weight.shape, op, ": ", names[i], " of shape ", in[i].shape,
                   " given, the weight's shape ", weight.shape, " expected");
    const DType expected = mixed && i > 1 ? DType::kFloat32 : weight.dtype;
    MX_CHECK_DTYPE(in[i].dtype == expected, op, ": ", names[i], " of dtype ", in[i].dtype,
                   " given, ", expected, " expected");
  }
}

template <class P>
void add_update(OpRegistry& ops, const Row& row) {
  std::vector<std::string> inputs = {"weight", "grad"};
  inputs.insert(inputs.end(), row.states.begin(), row.states.end());
  std::vector<int> mutated;
  for (size_t i = 2; i < inputs.size(); ++i) mutated.push_back(static_cast<int>(i));
  ops.add(OpBuilder<P>(row.name)
              .inputs(inputs)
              .doc(row.doc)
              .infer([row, inputs](const P&, std::span<const TensorSpec> in) -> Specs {
                check_update(row.name, inputs, in, row.mixed);
                return {in[0]};
              })
              .mutates(mutated)
              .inplace(0, 0)
              .build());
}

// adamw_update: rescale_grad is an array of one number, so that a loss scale stays on the device.
void add_adamw(OpRegistry& ops, const char* name, std::vector<std::string> aliases, bool mixed) {
  std::vector<std::string> states = {"weight", "grad", "mean", "var"};
  if (mixed) states.emplace_back("weight32");
  std::vector<std::string> inputs = states;
  inputs.emplace_back("rescale_grad");
  ops.add(OpBuilder<AdamWParams>(name)
              .inputs(inputs)
              .alias(aliases)
              .doc("AdamW: weight -= eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight). "
                   "Nothing changes if rescale_grad is 0 or not finite.")
              .infer([name, states, mixed](const AdamWParams&,
                                           std::span<const TensorSpec> in) -> Specs {
                check_update(name, states, in.first(states.size()), mixed);
                const TensorSpec& scale = in[states.size()];
                MX_CHECK_SHAPE(scale.shape.size() == 1, name, ": rescale_grad of shape ",
                               scale.shape, " given, one number expected");
                return {in[0]};
              })
              .mutates(mixed ? std::vector<int>{2, 3, 4} : std::vector<int>{2, 3})
              .inplace(0, 0)
              .build());
}

void add_lamb(OpRegistry& ops, bool mixed) {
  const char* name1 = mixed ? "mp_lamb_update_phase1" : "lamb_update_phase1";
  std::vector<std::string> first = {"weight", "grad", "mean", "var"};
  if (mixed) first.emplace_back("weight32");
  ops.add(
      OpBuilder<LambParams>(name1)
          .inputs(first)
          .doc("LAMB, first part: the step before it is scaled by the layer's norms.")
          .infer([name1, first, mixed](const LambParams&, std::span<const TensorSpec> in) -> Specs {
            check_update(name1, first, in, mixed);
            return {{in[0].shape, mixed ? DType::kFloat32 : in[0].dtype}};
          })
          .mutates({2, 3})
          .build());
  const char* name2 = mixed ? "mp_lamb_update_phase2" : "lamb_update_phase2";
  std::vector<std::string> second = {"weight", "g", "r1", "r2"};
  if (mixed) second.emplace_back("weight32");
  OpBuilder<LambStepParams> op(name2);
  if (mixed) op.mutates({4});
  ops.add(op.inputs(second)
              .doc("LAMB, second part: weight -= lr * r1 / r2 * g, where r1 is the weight's norm "
                   "and r2 that of g.")
              .infer([name2](const LambStepParams&, std::span<const TensorSpec> in) -> Specs {
                MX_CHECK_SHAPE(in[1].shape == in[0].shape, name2, ": g of shape ", in[1].shape,
                               " given, the weight's shape ", in[0].shape, " expected");
                MX_CHECK_SHAPE(in[2].shape.size() == 1 && in[3].shape.size() == 1, name2,
                               ": r1 of shape ", in[2].shape, " and r2 of shape ", in[3].shape,
                               " given, one number each expected");
                MX_CHECK_DTYPE(is_floating(in[0].dtype), name2, ": weight of dtype ", in[0].dtype,
                               " given, a floating type expected");
                if (in.size() == 5) {
                  MX_CHECK_SHAPE(in[4].shape == in[0].shape, name2, ": weight32 of shape ",
                                 in[4].shape, " given, the weight's shape ", in[0].shape,
                                 " expected");
                  MX_CHECK_DTYPE(in[4].dtype == DType::kFloat32, name2, ": weight32 of dtype ",
                                 in[4].dtype, " given, float32 expected");
                }
                return {in[0]};
              })
              .inplace(0, 0)
              .build());
}

Specs infer_group_adagrad(const GroupAdagradParams&, std::span<const TensorSpec> in) {
  constexpr const char* kName = "_contrib_group_adagrad_update";
  check_update(kName, {"weight", "grad"}, in.first(2), false);
  const TensorSpec &weight = in[0], &history = in[2];
  MX_CHECK_SHAPE(weight.shape.ndim() > 0 && history.shape.size() == weight.shape[0], kName,
                 ": history of shape ", history.shape, " given, one number per row of weight ",
                 weight.shape, " expected");
  MX_CHECK_DTYPE(history.dtype == weight.dtype, kName, ": history of dtype ", history.dtype,
                 " given, ", weight.dtype, " expected");
  return {weight};
}

}  // namespace
}  // namespace optimizer

void register_multi_updates(OpRegistry&);

void register_optimizer(OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: this folder's own names
  add_update<SgdParams>(ops, {"sgd_update", "weight -= lr * (grad + wd * weight).", {}});
  add_update<SgdParams>(ops,
                        {"mp_sgd_update", "sgd_update with a float32 weight.", {"weight32"}, true});
  add_update<SgdMomParams>(ops, {"sgd_mom_update",
                                 "mom = momentum * mom - lr * (grad + wd * weight); weight += mom.",
                                 {"mom"}});
  add_update<SgdMomParams>(
      ops,
      {"mp_sgd_mom_update", "sgd_mom_update with a float32 weight.", {"mom", "weight32"}, true});
  add_update<NagParams>(ops, {"nag_mom_update", "SGD with Nesterov's momentum.", {"mom"}});
  add_update<NagParams>(
      ops,
      {"mp_nag_mom_update", "nag_mom_update with a float32 weight.", {"mom", "weight32"}, true});
  add_update<AdamParams>(ops,
                         {"adam_update",
                          "weight -= lr * mean / (sqrt(var) + epsilon); lr is already corrected.",
                          {"mean", "var"}});
  add_update<AdagradParams>(
      ops, {"_sparse_adagrad_update",
            "history += grad^2; weight -= lr * (grad / sqrt(history + epsilon) + wd * weight).",
            {"history"}});
  add_update<RmspropParams>(
      ops,
      {"rmsprop_update", "RMSProp (Tieleman): weight -= lr * grad / sqrt(n + epsilon).", {"n"}});
  add_update<RmspropAlexParams>(
      ops, {"rmspropalex_update", "RMSProp (Graves), centered.", {"n", "g", "delta"}});
  add_update<FtrlParams>(ops, {"ftrl_update", "Follow the regularized leader.", {"z", "n"}});
  add_update<FtmlParams>(ops, {"ftml_update", "Follow the moving leader.", {"d", "v", "z"}});
  add_update<SignParams>(ops, {"signsgd_update", "weight -= lr * (sign(grad) + wd * weight).", {}});
  add_update<SignumParams>(
      ops, {"signum_update", "weight moves by lr against the sign of the momentum.", {"mom"}});
  add_adamw(ops, "_adamw_update", {"_contrib_adamw_update"}, false);
  add_adamw(ops, "_mp_adamw_update", {"_contrib_mp_adamw_update"}, true);
  add_lamb(ops, false);
  add_lamb(ops, true);
  ops.add(OpBuilder<GroupAdagradParams>("_contrib_group_adagrad_update")
              .inputs({"weight", "grad", "history"})
              .doc("Adagrad with one history per row: history += mean(grad^2).")
              .infer(infer_group_adagrad)
              .mutates({2})
              .inplace(0, 0)
              .build());
  register_multi_updates(ops);
}

}  // namespace mxlite
