// Correlation: products (or distances) of patches of data1 with patches of data2 displaced by up to
// max_displacement, one output channel per displacement.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct CorrelationParams {
  int64_t kernel_size = 1, max_displacement = 1, stride1 = 1, stride2 = 1, pad_size = 0;
  bool is_multiply = true;
  MX_FIELDS(
      CorrelationParams,
      MX_FIELD(kernel_size, "Height and width of a patch; must be odd.").between(1, kMaxSize),
      MX_FIELD(max_displacement, "Largest displacement along height and along width, in pixels.")
          .between(0, kMaxSize),
      MX_FIELD(stride1, "Distance between adjacent patches of data1, in pixels.")
          .between(1, kMaxSize),
      MX_FIELD(stride2, "Distance between adjacent displacements, in pixels.").between(1, kMaxSize),
      MX_FIELD(pad_size, "Number of zeros added at each side of both images.").between(0, kMaxSize),
      MX_FIELD(is_multiply,
               "Whether patches are compared by products; False uses absolute differences."))
  int64_t radius() const { return max_displacement / stride2; }
  int64_t displacements() const { return 2 * radius() + 1; }  // along one axis
  // Returns the number of patches along an axis of `size` pixels; <= 0 if none fits.
  int64_t patches(int64_t size) const {
    const int64_t border = max_displacement + (kernel_size - 1) / 2;
    const int64_t rest = size + 2 * pad_size - 2 * border;
    return rest <= 0 ? 0 : (rest + stride1 - 1) / stride1;
  }
};

}  // namespace mxlite
