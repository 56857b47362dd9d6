#include "cpp/ops/vision/roi_rules.h"

#include "cpp/ops/dimensions.h"

namespace mxlite {

void check_regions(const char* op, std::span<const TensorSpec> in, int64_t columns) {
  const TensorSpec &data = in[0], &rois = in[1];
  MX_CHECK_DTYPE(is_floating(data.dtype), op, ": data of dtype ", data.dtype,
                 " given, float16, bfloat16, float32 or float64 expected");
  MX_CHECK_SHAPE(data.shape.ndim() == 4 && data.shape[2] != 0 && data.shape[3] != 0, op,
                 ": data of shape ", data.shape,
                 " given, 4 dimensions (batch, channels, height, width) expected");
  MX_CHECK_SHAPE(rois.shape.ndim() == 2 && may_equal(rois.shape[1], columns), op,
                 ": rois of shape ", rois.shape, " given, (regions, ", columns, ") expected");
  MX_CHECK_DTYPE(rois.dtype == data.dtype || (is_half(data.dtype) && rois.dtype == DType::kFloat32),
                 op, ": rois of dtype ", rois.dtype, " given, ", data.dtype, " as data",
                 is_half(data.dtype) ? " or float32" : "", " expected");
}

void check_pooled_size(const char* op, const Shape& size) {
  MX_CHECK(size.ndim() == 2, op, ": pooled_size ", size, " given, height and width expected");
}

void check_groups(const char* op, const Shape& data, int64_t output_dim, int64_t groups) {
  const int64_t wanted = checked_mul(checked_mul(output_dim, groups), groups);
  MX_CHECK_SHAPE(may_equal(data[1], wanted), op, ": data of shape ", data, " has ", data[1],
                 " channels, output_dim ", output_dim, " and group_size ", groups, " need ",
                 wanted);
}

}  // namespace mxlite
