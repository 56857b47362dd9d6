// Gradients of dot-product attention made of ordinary operators, with the scores in memory: for
// second-order gradients and for gradients of the mask.
#pragma once
#include <vector>

#include "cpp/ops/grad_builder.h"
#include "cpp/ops/nn/dot_product_attention.h"

namespace mxlite {

// Inputs of a call and values that its gradient needs. For shapes see dot_product_attention.h.
struct AttentionValues {
  ValueRef query, key, value;
  ValueRef mask = {}, length = {};  // undefined if the call has none
  ValueRef output_grad = {};
  ValueRef random_state = {};  // undefined without dropout
};

// Returns the gradients of query, key, value and mask.
std::vector<ValueRef> attention_composite(GradBuilder& g, const AttentionParams& p,
                                          const AttentionValues& in);
// The composite gradient of `_contrib_dot_product_attention`.
std::vector<ValueRef> attention_composite_gradient(GradBuilder& g);

}  // namespace mxlite
