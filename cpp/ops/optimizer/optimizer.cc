// Weight updates with MXNet 1.x's names and formulas. States are inputs that the kernel changes in
// place; the new weight is the output, usually passed as out=weight.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/optimizer/updates.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace optimizer {
namespace {

void check_update(const std::string& op, const std::vector<std::string>& names,
                  std::span<const TensorSpec> in, bool mixed) {
  const TensorSpec& weight = in[0];
  MX_CHECK_DTYPE(is_floating(weight.dtype), op, ": weight must be of a floating type, got ",
                 weight.dtype);
  for (size_t i = 1; i < in.size(); ++i) {
    MX_CHECK_SHAPE(may_equal(in[i].shape, weight.shape), op, ": ", names[i],
                   " must have the weight's shape ", weight.shape, ", got ", in[i].shape);
    const DType expected = mixed && i > 1 ? DType::kFloat32 : weight.dtype;
    MX_CHECK_DTYPE(in[i].dtype == expected, op, ": ", names[i], " must be of dtype ", expected,
                   ", got ", in[i].dtype);
  }
}

// Inputs: weight, grad, states, then the float32 weight if `mixed`, then the scale if it is an
// input (so that a loss scale need not be copied to the host).
template <class P, template <class> class R, size_t kStates, bool kPreloaded>
void add_update(OpRegistry& ops, const Update<P, R, kStates, kPreloaded>& update, bool mixed) {
  constexpr bool kScaled = Update<P, R, kStates, kPreloaded>::kScaleIsInput;
  const std::string name = mixed ? update.mixed_name : update.name;
  std::vector<std::string> arrays = {"weight", "grad"};
  arrays.insert(arrays.end(), update.states.begin(), update.states.end());
  if (mixed) arrays.emplace_back("weight32");
  std::vector<int> mutated;
  for (size_t i = 2; i < arrays.size(); ++i) mutated.push_back(static_cast<int>(i));
  std::vector<std::string> inputs = arrays, aliases;
  if (kScaled) {
    inputs.emplace_back("rescale_grad");
    aliases.emplace_back("_contrib" + name);  // AdamW is in nd.contrib
  }
  ops.add(OpBuilder<P>(name)
              .inputs(inputs)
              .alias(aliases)
              .doc(mixed && !kScaled ? str(update.name,
                                           " with a float32 copy of the weight, weight32, which is "
                                           "updated; weight gets the result in its own dtype.")
                                     : update.doc)
              .infer([name, arrays, mixed](const P&, std::span<const TensorSpec> in) -> Specs {
                check_update(name, arrays, in.first(arrays.size()), mixed);
                if constexpr (kScaled)
                  MX_CHECK_SHAPE(may_equal(count_elements(in.back().shape), 1), name,
                                 ": rescale_grad must be one number, got shape ", in.back().shape);
                return {in[0]};
              })
              .mutates(mutated)
              .inplace(0, 0)
              .update_family({.name = update.name, .mixed = mixed})
              .storage({.row_update = mixed ? RowUpdate{} : update.row_update}));
}

void add_lamb(OpRegistry& ops, bool mixed) {
  const char* name1 = mixed ? "mp_lamb_update_phase1" : "lamb_update_phase1";
  std::vector<std::string> first = {"weight", "grad", "mean", "var"};
  if (mixed) first.emplace_back("weight32");
  ops.add(
      OpBuilder<LambParams>(name1)
          .inputs(first)
          .doc("LAMB, first phase: returns the step before it is scaled by the norms of weight and "
               "step.")
          .infer([name1, first, mixed](const LambParams&, std::span<const TensorSpec> in) -> Specs {
            check_update(name1, first, in, mixed);
            return {{in[0].shape, mixed ? DType::kFloat32 : in[0].dtype}};
          })
          .mutates({2, 3}));
  const char* name2 = mixed ? "mp_lamb_update_phase2" : "lamb_update_phase2";
  std::vector<std::string> second = {"weight", "g", "r1", "r2"};
  if (mixed) second.emplace_back("weight32");
  OpBuilder<LambStepParams> op(name2);
  if (mixed) op.mutates({4});
  ops.add(op.inputs(second)
              .doc("LAMB, second phase: weight -= lr * r1 / r2 * g, where g is the result of the "
                   "first phase, r1 the norm of weight and r2 the norm of g.")
              .infer([name2](const LambStepParams&, std::span<const TensorSpec> in) -> Specs {
                MX_CHECK_SHAPE(may_equal(in[1].shape, in[0].shape), name2,
                               ": g must have the weight's shape ", in[0].shape, ", got ",
                               in[1].shape);
                MX_CHECK_SHAPE(may_equal(count_elements(in[2].shape), 1) &&
                                   may_equal(count_elements(in[3].shape), 1),
                               name2, ": r1 and r2 must be one number each, got shapes ",
                               in[2].shape, " and ", in[3].shape);
                MX_CHECK_DTYPE(is_floating(in[0].dtype), name2,
                               ": weight must be of a floating type, got ", in[0].dtype);
                if (in.size() == 5) {
                  MX_CHECK_SHAPE(may_equal(in[4].shape, in[0].shape), name2,
                                 ": weight32 must have the weight's shape ", in[0].shape, ", got ",
                                 in[4].shape);
                  MX_CHECK_DTYPE(in[4].dtype == DType::kFloat32, name2,
                                 ": weight32 must be of dtype float32, got ", in[4].dtype);
                }
                return {in[0]};
              })
              .inplace(0, 0));
}

Specs infer_group_adagrad(const GroupAdagradParams&, std::span<const TensorSpec> in) {
  constexpr const char* kName = "_contrib_group_adagrad_update";
  check_update(kName, {"weight", "grad"}, in.first(2), false);
  const TensorSpec &weight = in[0], &history = in[2];
  MX_CHECK_SHAPE(
      weight.shape.ndim() > 0 && may_equal(count_elements(history.shape), weight.shape[0]), kName,
      ": history must have one number per row of the weight of shape ", weight.shape,
      ", got shape ", history.shape);
  MX_CHECK_DTYPE(history.dtype == weight.dtype, kName, ": history must be of dtype ", weight.dtype,
                 ", got ", history.dtype);
  return {weight};
}

}  // namespace
}  // namespace optimizer

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: this folder's own names
  for_each_update([&](const auto& update) {
    add_update(ops, update, false);
    if (update.mixed_name) add_update(ops, update, true);
  });
  add_lamb(ops, false);
  add_lamb(ops, true);
  ops.add(OpBuilder<GroupAdagradParams>("_contrib_group_adagrad_update")
              .inputs({"weight", "grad", "history"})
              .doc("AdaGrad with one history for each row of weight: history += mean(grad^2) of "
                   "the row.")
              .infer(infer_group_adagrad)
              .mutates({2})
              .inplace(0, 0)
              .update_family({.name = "_contrib_group_adagrad_update"})
              .storage({.row_update = {.op = "_rows_group_adagrad_update", .any_states = true}}));
});

}  // namespace mxlite
