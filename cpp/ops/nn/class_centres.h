// Operators of a classifier that compares embeddings with some rows of a matrix of class centres by
// their cosine (partial FC). The operators copy rows in tiles whose size does not depend on the
// number of classes.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct SampleClassesParams {
  int64_t classes = 0, first = 0, size = 0, count = 0, seed = 0;
  MX_FIELDS(SampleClassesParams,
            MX_REQUIRED_FIELD(classes, "Number of all classes.").between(1, kMaxSize),
            MX_REQUIRED_FIELD(first, "First class of this process's shard.").at_least(0),
            MX_REQUIRED_FIELD(size, "Number of classes of this shard.").between(1, 2147483647),
            MX_REQUIRED_FIELD(count, "Number of rows to choose.").at_least(1),
            MX_FIELD(seed, "Seed of the random choice."))
};

struct CentreUpdateParams {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1;
  MX_FIELDS(CentreUpdateParams, MX_REQUIRED_FIELD(lr, "Learning rate."),
            MX_FIELD(momentum, "Factor of the previous momentum."), MX_FIELD(wd, "Weight decay."),
            MX_FIELD(rescale_grad, "Factor of the gradient."))
};

}  // namespace mxlite
