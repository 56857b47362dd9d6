// diag and its gradient.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct DiagParams {
  int64_t k = 0;
  int axis1 = 0, axis2 = 1;
  MX_FIELDS(
      DiagParams,
      MX_FIELD(
          k, "Diagonal: positive above the main diagonal, negative below it, 0 the main diagonal.")
          .between(-kMaxSize, kMaxSize),
      MX_FIELD(axis1, "Axis of the rows; ignored for a vector."),
      MX_FIELD(axis2, "Axis of the columns; ignored for a vector."))
};

struct DiagBackwardParams {
  Shape shape;
  int64_t k = 0;
  int axis1 = 0, axis2 = 1;
  MX_FIELDS(DiagBackwardParams, MX_REQUIRED_FIELD(shape, "Shape of the output."),
            MX_FIELD(k, "As in diag."), MX_FIELD(axis1, "As in diag."),
            MX_FIELD(axis2, "As in diag."))
};

// View of a diagonal of an array with 2 or more dimensions: offset of its first element, and shape
// and strides. In the result of diag, the other axes precede the diagonal's axis.
struct DiagonalView {
  int64_t start = 0;
  Shape shape;
  Strides strides;
};
DiagonalView diagonal_view(const Shape& shape, const Strides& strides, int64_t k, int axis1,
                           int axis2);

}  // namespace mxlite
