// Converts fused operators to oneDNN's post-ops.
#pragma once
#include <optional>
#include <string_view>

#include "cpp/ops/cpu/onednn/engine.h"
#include "cpp/ops/planned_kernel.h"

namespace mxlite::onednn {

// output = scale * algorithm(data; alpha, beta)
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha = 0, beta = 0, scale = 1;
};
// Returns oneDNN's activation, or nullopt if none has the same meaning.
std::optional<Eltwise> eltwise_of(const OpSchema& op, const void* params);

// Returns a parameter by name, for operators whose parameter struct this folder does not include.
AttrValue attribute(const OpSchema& op, const void* params, std::string_view name);

// Returns attributes with the post-ops of a request. kAdd becomes a sum into the output's memory.
// relu becomes a product (see Note [NaN and relu]) unless the primitive supports only oneDNN's
// relu.
dnnl::primitive_attr fused_attr(std::span<const PostOp> post_ops, bool keep_nan = true);
// Fusion rule of kernels with the post-ops sum and eltwise: at most one addition, which precedes
// the activations.
bool can_fuse_add_and_activation(const PlanRequest& so_far, const PostOp& candidate,
                                 const TensorSpec* extra_input);
bool can_fuse_activation(const PlanRequest& so_far, const PostOp& candidate,
                         const TensorSpec* extra_input);
// Post-ops for our own kernels: an addition, then relu. Other post-ops give nullopt.
struct SimplePostOps {
  bool add = false, relu = false;
};
std::optional<SimplePostOps> simple_post_ops(std::span<const PostOp> post_ops);
int count_additions(std::span<const PostOp> post_ops);

}  // namespace mxlite::onednn
