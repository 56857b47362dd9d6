// Operators on padded sequences: data is (time, batch, ...), or (batch, time, ...) with axis 1.
#pragma once
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct SequenceMaskParams {
  bool use_sequence_length = false;
  double value = 0;
  int axis = 0;
  static constexpr auto fields() {
    return std::tuple(field("use_sequence_length", &SequenceMaskParams::use_sequence_length,
                            "Use sequence_length; otherwise nothing is masked."),
                      field("value", &SequenceMaskParams::value, "Value of steps after the end."),
                      field("axis", &SequenceMaskParams::axis, "Axis of time: 0 or 1."));
  }
};

struct SequenceParams {
  bool use_sequence_length = false;
  int axis = 0;
  static constexpr auto fields() {
    return std::tuple(field("use_sequence_length", &SequenceParams::use_sequence_length,
                            "Use sequence_length; otherwise all sequences have full length."),
                      field("axis", &SequenceParams::axis, "Axis of time."));
  }
};

struct SequenceLastBackwardParams {
  Shape shape;
  bool use_sequence_length = false;
  int axis = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("shape", &SequenceLastBackwardParams::shape, "Shape of the output."),
        field("use_sequence_length", &SequenceLastBackwardParams::use_sequence_length,
              "As in SequenceLast."),
        field("axis", &SequenceLastBackwardParams::axis, "As in SequenceLast."));
  }
};

}  // namespace mxlite
