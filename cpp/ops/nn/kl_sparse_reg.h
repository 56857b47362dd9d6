// IdentityAttachKLSparseReg: the identity, with a term added to the gradient that pulls each
// channel's mean activation towards sparseness_target. The mean is a running mean, which forward
// updates in training; backward reads it from the hidden second output.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct KlSparseRegParams {
  float sparseness_target = 0.1f, penalty = 0.001f, momentum = 0.9f;
  MX_FIELDS(KlSparseRegParams,
            MX_FIELD(sparseness_target, "Mean activation that is wanted.").between(0, 1),
            MX_FIELD(penalty, "Weight of the term."),
            MX_FIELD(momentum, "Running mean: running * m + batch * (1 - m).").between(0, 1))
};

}  // namespace mxlite
