// Probability densities: random_pdf_<distribution>(sample, parameters). Each distribution defines
// the logarithm of its density, and the derivatives of this logarithm by operators.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite::random {

struct PdfParams {
  bool is_log = false;
  MX_FIELDS(PdfParams, MX_FIELD(is_log, "Whether to return the logarithm of the density."))
};

}  // namespace mxlite::random
