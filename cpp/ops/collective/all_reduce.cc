// all_reduce and broadcast: every rank gets an array of the same shape.

#include "cpp/ops/collective/params.h"
#include "cpp/ops/collective/reductions.h"
#include "cpp/ops/collective/run.h"
#include "cpp/ops/registration.h"

namespace mxlite::collective {
namespace {

constexpr const char* kAllReduceOp = "_contrib_all_reduce";
constexpr const char* kSumGradientOp = "_contrib_sum_gradient";
constexpr const char* kBroadcastOp = "_contrib_broadcast";
constexpr const char* kReduceOp = "_collective_reduce";

Specs infer_all_reduce(const AllReduceParams& p, std::span<const TensorSpec> in) {
  group_of(kAllReduceOp, p.process_set);
  check_mean(kAllReduceOp, p.op, in[0].dtype);
  return Specs{in[0]};
}

std::vector<ValueRef> all_reduce_gradient(GradBuilder& g) {
  const auto& p = g.params<AllReduceParams>();
  check_differentiable(kAllReduceOp, p.op);
  if (p.replicated) {
    const ValueRef same =
        g.emit(kSumGradientOp, {g.output_grad(0)}, {{"process_set", int64_t{p.process_set}}});
    if (p.op == Reduction::kSum) return {same};
    const double ranks = static_cast<double>(group_of(kAllReduceOp, p.process_set).size());
    return {g.mul_scalar(same, 1 / ranks)};
  }
  return {g.emit(kAllReduceOp, {g.output_grad(0)}, g.params_ref())};
}

Specs infer_sum_gradient(const SumGradientParams& p, std::span<const TensorSpec> in) {
  group_of(kSumGradientOp, p.process_set);
  return Specs{in[0]};
}

Specs infer_rooted(const RootParams& p, std::span<const TensorSpec> in) {
  const ProcessGroup group = group_of(kBroadcastOp, p.process_set);
  MX_CHECK(group.has(p.root), kBroadcastOp, ": root must be a rank of process set ", p.process_set,
           " (", list_of(group.ranks), "), got ", p.root);
  return Specs{in[0]};
}

void rooted_terms(const RootParams& p, Kind kind, const char* name, Terms& terms) {
  terms.kind = kind;
  terms.process_set = p.process_set;
  terms.peer = p.root;
  terms.text = str(name, "(root=", p.root, ")");
}

}  // namespace

static const Registration all_reduce_registration(Stage::kSchemas, [](OpRegistry& ops) {
  add(ops,
      OpBuilder<AllReduceParams>(kAllReduceOp)
          .doc("Combines the arrays of all ranks of a process set; every rank gets the result. All "
               "ranks must call collective operators in the same order. The gradient of sum and "
               "mean is the sum and mean of the ranks' gradients; min, max and product are not "
               "differentiable. A process that has joined no job gets its own array.")
          .shapes("any shape -> the same shape")
          .infer(infer_all_reduce)
          .gradient(all_reduce_gradient),
      [](const void* params, const TensorSpec&, Terms& terms) {
        const auto& p = *static_cast<const AllReduceParams*>(params);
        terms.kind = Kind::kAllReduce;
        terms.process_set = p.process_set;
        terms.reduction = p.op;
        terms.text = str("all_reduce(", reduction_name(p.op), p.replicated ? ", replicated)" : ")");
      });
  add(ops,
      OpBuilder<SumGradientParams>(kSumGradientOp)
          .doc("Returns data; backward sums the gradients of all ranks of a process set. For "
               "tensor parallelism: apply sum_gradient to an array that all ranks have, before a "
               "part of the network of which each rank computes a share, and `all_reduce` with "
               "`replicated=True` after the part.")
          .shapes("any shape -> the same shape")
          .infer(infer_sum_gradient)
          .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
            return {g.emit(kAllReduceOp, {g.output_grad(0)},
                           {{"process_set", int64_t{g.params<SumGradientParams>().process_set}},
                            {"replicated", true}})};
          }),
      [](const void* params, const TensorSpec&, Terms& terms) {
        terms.kind = Kind::kNone;
        terms.process_set = static_cast<const SumGradientParams*>(params)->process_set;
        terms.text = "sum_gradient";
      });
  add(ops,
      OpBuilder<RootParams>(kBroadcastOp)
          .doc("Returns the array of one rank on all ranks of a process set. All ranks give an "
               "array of the same shape and dtype. The root's gradient is the sum of all ranks' "
               "gradients, that of other ranks is 0.")
          .shapes("any shape -> the same shape")
          .infer(infer_rooted)
          .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
            return {g.emit(kReduceOp, {g.output_grad(0)}, g.params_ref())};
          }),
      [](const void* params, const TensorSpec&, Terms& terms) {
        rooted_terms(*static_cast<const RootParams*>(params), Kind::kBroadcast, "broadcast", terms);
      });
  add(ops,
      OpBuilder<RootParams>(kReduceOp)
          .internal()
          .doc("Sum of all ranks' arrays on the root, zeros on other ranks: gradient of broadcast.")
          .infer(infer_rooted)
          .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
            return {g.emit(kBroadcastOp, {g.output_grad(0)}, g.params_ref())};
          }),
      [](const void* params, const TensorSpec&, Terms& terms) {
        rooted_terms(*static_cast<const RootParams*>(params), Kind::kReduce,
                     "gradient of broadcast", terms);
      });
});

}  // namespace mxlite::collective
