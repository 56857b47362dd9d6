// Schemas of nd.contrib that belong to no other family, one line per file.
#include "cpp/ops/register_ops.h"

namespace mxlite {

void register_allclose(OpRegistry&);
void register_count_sketch(OpRegistry&);
void register_estimators(OpRegistry&);
void register_fft(OpRegistry&);
void register_hawkes(OpRegistry&);

void register_contrib(OpRegistry& ops) {
  register_allclose(ops);
  register_count_sketch(ops);
  register_estimators(ops);
  register_fft(ops);
  register_hawkes(ops);
}

}  // namespace mxlite
