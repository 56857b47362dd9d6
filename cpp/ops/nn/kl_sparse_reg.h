// IdentityAttachKLSparseReg: the identity, with a term added to the gradient that pulls each
// channel's mean activation towards sparseness_target. The mean is a running mean, which forward
// updates in training; backward reads it from the hidden second output.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct KlSparseRegParams {
  float sparseness_target = 0.1f, penalty = 0.001f, momentum = 0.9f;
  MX_FIELDS(KlSparseRegParams,
            MX_FIELD(sparseness_target,
                     "Mean activation of each feature at which the penalty is 0.")
                .between(0, 1),
            MX_FIELD(penalty, "Factor of the penalty's gradient."),
            MX_FIELD(momentum,
                     "Weight of the old value in the running mean: running = momentum * running + "
                     "(1 - momentum) * batch.")
                .between(0, 1))
};

}  // namespace mxlite
