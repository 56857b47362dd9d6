// Local response normalization over neighbouring channels:
// output = data * (knorm + alpha / nsize * sum of squares over nsize channels) ^ -beta.
#pragma once
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

// Also the params of `_lrn_backward(output_grad, data)`.
struct LRNParams {
  float alpha = 1e-4f, beta = 0.75f, knorm = 2.0f;
  int64_t nsize = 0;
  static constexpr auto fields() {
    using P = LRNParams;
    return std::tuple(field("alpha", &P::alpha, "Factor of the sum of squares."),
                      field("beta", &P::beta, "Exponent."),
                      field("knorm", &P::knorm, "Constant added to the sum."),
                      required_field("nsize", &P::nsize, "Number of channels summed over (odd).")
                          .between(1, kMaxSize));
  }
};

}  // namespace mxlite
