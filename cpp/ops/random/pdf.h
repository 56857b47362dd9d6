// Probability densities: random_pdf_<distribution>(sample, parameters). Each distribution defines
// the logarithm of its density, and that logarithm's derivatives as operators.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite::random {

struct PdfParams {
  bool is_log = false;
  static constexpr auto fields() {
    return std::tuple(
        field("is_log", &PdfParams::is_log, "Give the logarithm of the density instead?"));
  }
};

}  // namespace mxlite::random
