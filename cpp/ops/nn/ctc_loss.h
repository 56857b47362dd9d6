// Connectionist temporal classification (Graves et al., 2006). The operator normalizes data
// (length, batch, classes) by softmax. label (batch, labels) contains classes; its padding is 0 if
// the blank is class 0 (blank_label 'first'), or -1 if the blank is the last class.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

enum class BlankLabel : uint8_t { kFirst, kLast };
MX_ENUM_NAMES(BlankLabel, {"first", E::kFirst}, {"last", E::kLast})

// Outputs: loss (batch,) and, hidden, the gradient of data.
struct CTCLossParams {
  bool use_data_lengths = false, use_label_lengths = false;
  BlankLabel blank_label = BlankLabel::kFirst;
  MX_FIELDS(CTCLossParams, MX_FIELD(use_data_lengths, "Take the input data_lengths."),
            MX_FIELD(use_label_lengths, "Take the input label_lengths."),
            MX_FIELD(blank_label, "Class of the blank: 0 or the last one."))
};

}  // namespace mxlite
