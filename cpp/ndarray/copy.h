// Copies between any strides and dtypes. Runs in the calling thread; opens a parallel region only
// for large contiguous data.
#pragma once
#include "cpp/core/shape.h"

namespace mxlite {

struct StridedData {
  void* data;
  DType dtype;
  Strides strides;  // in elements
};

// dst and src have the same shape and do not overlap (unless they are identical).
void copy_strided(const Shape& shape, const StridedData& src, const StridedData& dst);

// Drops dimensions of 1 and joins neighbours that are contiguous in every list of strides.
void collapse_dimensions(Shape& shape, std::span<Strides* const> strides);

}  // namespace mxlite
