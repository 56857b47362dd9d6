// Local response normalization over neighbouring channels:
// output = data * (knorm + alpha / nsize * sum of squares over nsize channels) ^ -beta.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

// Also the params of `_lrn_backward(output_grad, data)`.
struct LRNParams {
  float alpha = 1e-4f, beta = 0.75f, knorm = 2.0f;
  int64_t nsize = 0;
  MX_FIELDS(LRNParams,
            MX_FIELD(alpha, "Factor of the sum of squares, before its division by nsize."),
            MX_FIELD(beta, "Exponent of the divisor."),
            MX_FIELD(knorm, "Constant in the base of the divisor."),
            MX_REQUIRED_FIELD(nsize, "Number of adjacent channels in the sum; must be odd.")
                .between(1, kMaxSize))
};

}  // namespace mxlite
