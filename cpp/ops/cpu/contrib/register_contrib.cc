// CPU kernels of nd.contrib that belong to no other family, one line per file.
#include "cpp/ops/register_ops.h"

namespace mxlite {

void register_allclose_cpu(OpRegistry&);
void register_count_sketch_cpu(OpRegistry&);
void register_estimators_cpu(OpRegistry&);
void register_fft_cpu(OpRegistry&);
void register_hawkes_cpu(OpRegistry&);

void register_contrib_cpu(OpRegistry& ops) {
  register_allclose_cpu(ops);
  register_count_sketch_cpu(ops);
  register_estimators_cpu(ops);
  register_fft_cpu(ops);
  register_hawkes_cpu(ops);
}

}  // namespace mxlite
