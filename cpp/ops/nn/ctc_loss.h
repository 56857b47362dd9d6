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
  MX_FIELDS(CTCLossParams,
            MX_FIELD(use_data_lengths,
                     "Whether data_lengths, the number of steps of each sequence, is given; "
                     "otherwise all steps count."),
            MX_FIELD(use_label_lengths,
                     "Whether label_lengths, the number of labels of each sequence, is given; "
                     "otherwise labels end at the first 0 (blank_label 'first') or -1 ('last')."),
            MX_FIELD(blank_label, "Class that is the blank: class 0 or the last class."))
};

}  // namespace mxlite
