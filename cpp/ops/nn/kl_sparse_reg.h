// IdentityAttachKLSparseReg: the identity, with a term added to the gradient that pulls each
// channel's mean activation towards sparseness_target. The mean is a running mean, which forward
// updates in training; backward reads it from the hidden second output.
#pragma once
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct KlSparseRegParams {
  float sparseness_target = 0.1f, penalty = 0.001f, momentum = 0.9f;
  static constexpr auto fields() {
    using P = KlSparseRegParams;
    return std::tuple(
        field("sparseness_target", &P::sparseness_target, "Mean activation that is wanted.")
            .between(0, 1),
        field("penalty", &P::penalty, "Weight of the term."),
        field("momentum", &P::momentum, "Running mean: running * m + batch * (1 - m).")
            .between(0, 1));
  }
};

}  // namespace mxlite
