// FullyConnected inside executables. Epilogues of cuBLASLt add the bias and another array and apply
// relu. cuBLASLt's gelu epilogue is not used, because it computes the tanh approximation, but the
// operator computes exact gelu.
#include "cpp/ops/cuda/channels_last.h"
#include "cpp/ops/cuda/matrix/gemm.h"
#include "cpp/ops/nn/activation.h"
#include "cpp/ops/nn/fully_connected.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

const FullyConnectedParams& params_of(const PlanRequest& r) {
  return *static_cast<const FullyConnectedParams*>(r.params);
}

// cuBLASLt has no epilogues for float64 or for empty products.
bool has_epilogues(const PlanRequest& r) {
  const DType dtype = r.inputs[0].dtype;
  return (dtype == DType::kFloat32 || is_half(dtype)) &&
         fully_connected_rows(params_of(r), r.inputs[0].shape).columns > 0 &&
         r.outputs[0].shape.size() > 0;
}

bool can_fuse(const PlanRequest& so_far, const PostOp& candidate, const TensorSpec* extra_input) {
  if (!has_epilogues(so_far)) return false;
  if (candidate.kind == PostOp::Kind::kAdd)
    return so_far.post_ops.empty() && extra_input && *extra_input == so_far.outputs[0];
  for (const PostOp& p : so_far.post_ops)
    if (p.kind == PostOp::Kind::kActivation) return false;
  return is_relu(candidate);
}

std::optional<Plan> plan(const PlanRequest& r) {
  if (!has_epilogues(r) || r.post_ops.empty())
    return std::nullopt;  // the plain kernel runs
                          // instead
  const FullyConnectedParams& p = params_of(r);
  const auto [rows, columns] = fully_connected_rows(p, r.inputs[0].shape);
  Gemm g{.dtype = r.inputs[0].dtype,
         .trans_b = true,
         .m = rows,
         .n = p.num_hidden,
         .k = columns,
         .lda = columns,
         .ldb = columns,
         .ldc = p.num_hidden,
         .bias = !p.no_bias};
  bool adds = false;
  for (const PostOp& post : r.post_ops) (post.kind == PostOp::Kind::kAdd ? adds : g.relu) = true;
  if (adds) g.beta = 1;
  Plan plan;
  for (const TensorSpec& s : r.inputs) plan.inputs.push_back({nullptr, s.bytes()});
  plan.outputs = {{nullptr, r.outputs[0].bytes()}};
  const size_t addend = p.no_bias ? 2 : 3;
  plan.run = [g, adds, addend](KernelContext& ctx, std::span<void* const> in,
                               std::span<void* const> out, void*) {
    gemm(ctx, g, {in[0], in[1], out[0], g.bias ? in[2] : nullptr, adds ? in[addend] : nullptr});
  };
  return plan;
}

}  // namespace

bool is_relu(const PostOp& p) {
  if (p.op->name == "relu") return true;
  return p.op->name == "Activation" &&
         static_cast<const ActivationParams*>(p.params.get())->act_type == ActivationType::kRelu;
}

static const Registration registration(Stage::kPlans, [](OpRegistry& ops) {
  add_planned_kernel(ops, "FullyConnected", DeviceType::kCUDA, {plan, can_fuse});
});

}  // namespace mxlite::cuda
