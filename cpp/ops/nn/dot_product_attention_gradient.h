// Gradients of dot-product attention with ordinary operators, which hold the scores: for gradients
// of gradients, and where the mask needs a gradient.
#pragma once
#include <vector>

#include "cpp/ops/grad_builder.h"
#include "cpp/ops/nn/dot_product_attention.h"

namespace mxlite {

// Values of a call, with shapes as in dot_product_attention.h.
struct AttentionValues {
  ValueRef query, key, value;
  ValueRef mask = {}, length = {};  // undefined: the call has none
  ValueRef output_grad = {};
  ValueRef random_state = {};  // undefined: nothing was dropped
};

// Returns the gradients of query, key, value and mask.
std::vector<ValueRef> attention_composite(GradBuilder& g, const AttentionParams& p,
                                          const AttentionValues& in);
// The composite gradient of `_contrib_dot_product_attention`.
std::vector<ValueRef> attention_composite_gradient(GradBuilder& g);

}  // namespace mxlite
