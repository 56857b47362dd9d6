// Operators on padded sequences: data is (time, batch, ...), or (batch, time, ...) with axis 1.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct SequenceMaskParams {
  bool use_sequence_length = false;
  double value = 0;
  int axis = 0;
  MX_FIELDS(
      SequenceMaskParams,
      MX_FIELD(use_sequence_length,
               "Whether sequence_length, of shape (N,), is given; otherwise nothing is masked."),
      MX_FIELD(value, "Value of the steps after the end of a sequence."),
      MX_FIELD(axis, "Axis of time steps: 0 or 1; the other one is the batch."))
};

struct SequenceParams {
  bool use_sequence_length = false;
  int axis = 0;
  MX_FIELDS(SequenceParams,
            MX_FIELD(use_sequence_length,
                     "Whether sequence_length, of shape (N,), is given; otherwise all sequences "
                     "have all steps."),
            MX_FIELD(axis, "Axis of time steps."))
};

struct SequenceLastBackwardParams {
  Shape shape;
  bool use_sequence_length = false;
  int axis = 0;
  MX_FIELDS(SequenceLastBackwardParams, MX_REQUIRED_FIELD(shape, "Shape of the output."),
            MX_FIELD(use_sequence_length, "As in SequenceLast."),
            MX_FIELD(axis, "As in SequenceLast."))
};

}  // namespace mxlite
