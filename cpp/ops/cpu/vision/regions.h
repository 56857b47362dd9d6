// Rows of a rois array, converted to the compute type.
#pragma once
#include <algorithm>
#include <cmath>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/vision/bilinear.h"
#include "cpp/ops/kernel.h"

namespace mxlite::cpu {

template <class Acc>
struct Regions {
  const Acc* values = nullptr;
  int64_t count = 0, columns = 0;

  const Acc* row(int64_t r) const { return values + r * columns; }
  int64_t image(int64_t r) const { return static_cast<int64_t>(row(r)[0]); }
  // Bins of ignored regions are zeros. Bins of regions with NaN or infinite numbers are NaN.
  bool ignored(int64_t r) const { return row(r)[0] < 0; }
  bool finite(int64_t r) const {
    return std::all_of(row(r) + 1, row(r) + columns, [](Acc v) { return std::isfinite(v); });
  }
};

// `buffer` has room for rois.size() numbers. Throws an index error if a region refers to an image
// that data does not have.
template <class Acc>
Regions<Acc> read_regions(const char* op, const TensorRef& rois, int64_t batch, Acc* buffer) {
  dispatch_floating(op, rois.dtype,
                    [&]<class T>(T) { convert(rois.as<T>(), buffer, rois.size()); });
  const Regions<Acc> regions{buffer, rois.shape[0], rois.shape[1]};
  for (int64_t r = 0; r < regions.count; ++r) {
    const Acc image = regions.row(r)[0];
    MX_CHECK_KIND(image < static_cast<Acc>(batch), ErrorKind::kIndex, op,
                  ": the image index of rois[", r, "] must be below ", batch, ", got ", image);
  }
  return regions;
}

}  // namespace mxlite::cpu
