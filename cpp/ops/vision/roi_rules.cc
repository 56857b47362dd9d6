#include "cpp/ops/vision/roi_rules.h"

#include "cpp/ops/dimensions.h"

namespace mxlite {

void check_regions(const char* op, std::span<const TensorSpec> in, int64_t columns) {
  const TensorSpec &data = in[0], &rois = in[1];
  MX_CHECK_DTYPE(is_floating(data.dtype), op,
                 ": data must have dtype float16, bfloat16, float32 or float64, got ", data.dtype);
  MX_CHECK_SHAPE(data.shape.ndim() == 4 && data.shape[2] != 0 && data.shape[3] != 0, op,
                 ": data must have shape (batch, channels, height, width) with height and width of "
                 "at least 1, got ",
                 data.shape);
  MX_CHECK_SHAPE(rois.shape.ndim() == 2 && may_equal(rois.shape[1], columns), op,
                 ": rois must have shape (regions, ", columns, "), got ", rois.shape);
  MX_CHECK_DTYPE(rois.dtype == data.dtype || (is_half(data.dtype) && rois.dtype == DType::kFloat32),
                 op, ": rois must have data's dtype ", data.dtype,
                 is_half(data.dtype) ? " or dtype float32" : "", ", got ", rois.dtype);
}

void check_pooled_size(const char* op, const Shape& size) {
  MX_CHECK(size.ndim() == 2, op, ": pooled_size must be (height, width), got ", size);
}

void check_groups(const char* op, const Shape& data, int64_t output_dim, int64_t groups) {
  const int64_t wanted = checked_mul(checked_mul(output_dim, groups), groups);
  MX_CHECK_SHAPE(may_equal(data[1], wanted), op, ": data must have ", wanted,
                 " channels for output_dim ", output_dim, " and group_size ", groups, ", got ",
                 data[1], " in shape ", data);
}

}  // namespace mxlite
