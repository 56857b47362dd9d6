#include "cpp/ops/cpu/onednn/post_ops.h"

#include <limits>
#include <string>

namespace mxlite::onednn {
namespace {

constexpr float kSeluAlpha = 1.6732632423543772f, kSeluScale = 1.0507009873554805f;

std::optional<Eltwise> by_type(std::string_view type) {
  using alg = dnnl::algorithm;
  if (type == "relu") return Eltwise{alg::eltwise_relu};
  if (type == "sigmoid") return Eltwise{alg::eltwise_logistic};
  if (type == "tanh") return Eltwise{alg::eltwise_tanh};
  return std::nullopt;
}

float number(const OpSchema& op, const void* params, std::string_view name) {
  return static_cast<float>(attr_to_double(attribute(op, params, name)));
}

// Note [NaN and relu]: oneDNN's relu turns NaN into 0, so hardswish is used, which is x * clip(a *
// x, 0, 1). With the largest possible a, the result is x for x > 0, 0 or -0 for x < 0, and NaN for
// NaN (and for -inf, which is accepted, because such a network has diverged). Adding 0 turns -0
// into 0.
void append_relu_with_nan(dnnl::post_ops& ops) {
  ops.append_eltwise(dnnl::algorithm::eltwise_hardswish, std::numeric_limits<float>::max(), 0);
  ops.append_eltwise(dnnl::algorithm::eltwise_linear, 1, 0);
}

}  // namespace

AttrValue attribute(const OpSchema& op, const void* params, std::string_view name) {
  const int i = op.param_index(name);
  MX_ASSERT(i >= 0);
  return op.params_values(params)[static_cast<size_t>(i)];
}

std::optional<Eltwise> eltwise_of(const OpSchema& op, const void* params) {
  using alg = dnnl::algorithm;
  if (op.name == "Activation") return by_type(attr_to_string(attribute(op, params, "act_type")));
  if (op.name == "LeakyReLU") {
    const std::string type = attr_to_string(attribute(op, params, "act_type"));
    if (type == "leaky") return Eltwise{alg::eltwise_relu, number(op, params, "slope")};
    if (type == "elu") return Eltwise{alg::eltwise_elu, number(op, params, "slope")};
    if (type == "selu") return Eltwise{alg::eltwise_elu, kSeluAlpha, 0, kSeluScale};
    if (type == "gelu") return Eltwise{alg::eltwise_gelu_erf};
    return std::nullopt;
  }
  // Does not use oneDNN's clip and hard_sigmoid, which lose NaN, nor its soft_relu, which is
  // negative around -20.
  return by_type(op.name);  // relu, sigmoid, tanh
}

dnnl::primitive_attr fused_attr(std::span<const PostOp> post_ops, bool keep_nan) {
  dnnl::post_ops ops;
  for (const PostOp& p : post_ops) {
    if (p.kind == PostOp::Kind::kAdd) {
      ops.append_sum(1.0f);
      continue;
    }
    const Eltwise e = eltwise_of(*p.op, p.params.get()).value();
    if (keep_nan && e.algorithm == dnnl::algorithm::eltwise_relu && e.alpha == 0) {
      append_relu_with_nan(ops);
      continue;
    }
    ops.append_eltwise(e.algorithm, e.alpha, e.beta);
    if (e.scale != 1) ops.append_eltwise(dnnl::algorithm::eltwise_linear, e.scale, 0);
  }
  dnnl::primitive_attr attr = user_scratchpad();
  attr.set_post_ops(ops);
  return attr;
}

std::optional<SimplePostOps> simple_post_ops(std::span<const PostOp> post_ops) {
  SimplePostOps s;
  for (const PostOp& p : post_ops) {
    if (p.kind == PostOp::Kind::kAdd) {
      s.add = true;
      continue;
    }
    const auto e = eltwise_of(*p.op, p.params.get());
    if (s.relu || !e || e->algorithm != dnnl::algorithm::eltwise_relu || e->alpha != 0)
      return std::nullopt;
    s.relu = true;
  }
  return s;
}

int count_additions(std::span<const PostOp> post_ops) {
  int n = 0;
  for (const PostOp& p : post_ops) n += p.kind == PostOp::Kind::kAdd;
  return n;
}

bool can_fuse_activation(const PlanRequest& so_far, const PostOp& candidate, const TensorSpec*) {
  constexpr size_t kMost = 8;
  return candidate.kind == PostOp::Kind::kActivation && so_far.post_ops.size() < kMost &&
         computes_in(so_far.outputs[0].dtype) &&
         eltwise_of(*candidate.op, candidate.params.get()).has_value();
}

bool can_fuse_add_and_activation(const PlanRequest& so_far, const PostOp& candidate,
                                 const TensorSpec* extra_input) {
  if (candidate.kind == PostOp::Kind::kAdd)
    return so_far.post_ops.empty() && extra_input && *extra_input == so_far.outputs[0] &&
           computes_in(so_far.outputs[0].dtype);
  return can_fuse_activation(so_far, candidate, extra_input);
}

}  // namespace mxlite::onednn
