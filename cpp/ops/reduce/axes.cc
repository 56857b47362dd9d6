#include <string_view>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/reduce/reduce.h"

namespace mxlite {

void check_summable(const char* op, DType dtype) {
  MX_CHECK_DTYPE(dtype != DType::kBool, op,
                 ": data must have a numeric dtype, got bool; convert it with astype('int64')");
}

AxisMask reduced_axes(const char* op, const std::optional<Shape>& axis, bool exclude, int ndim) {
  AxisMask listed{};
  const bool all = !axis || axis->ndim() == 0;
  if (all) {
    std::fill_n(listed.begin(), ndim, true);
    return listed;  // as in 1.x, exclude without axes has no effect
  }
  for (const int64_t a : *axis) {
    const int i = normalize_axis(op, a, ndim);
    MX_CHECK(!listed[i], op, ": axis must contain distinct axes, got axis ", i, " twice in ",
             *axis);
    listed[i] = true;
  }
  if (exclude)
    for (int i = 0; i < ndim; ++i) listed[i] = !listed[i];
  return listed;
}

AxisMask reduced_axes(const char* op, const ReduceParams& p, int ndim) {
  return reduced_axes(op, p.axis, p.exclude, ndim);
}

AxisMask reduced_axes(const char* op, const NumpyReduceParams& p, int ndim) {
  if (p.axis && p.axis->ndim() == 0) return {};
  // As in NumPy, an array without axes can be reduced along axis 0 or -1, except by mean.
  const bool is_first = p.axis && p.axis->ndim() == 1 && ((*p.axis)[0] == 0 || (*p.axis)[0] == -1);
  if (ndim == 0 && is_first && std::string_view(op) != "_npi_mean") return {};
  return reduced_axes(op, p.axis, /*exclude=*/false, ndim);
}

Shape kept_shape(const Shape& shape, const AxisMask& reduced) {
  Shape out = shape;
  for (int i = 0; i < shape.ndim(); ++i)
    if (reduced[i]) out[i] = 1;
  return out;
}

Shape shape_without(const Shape& shape, const AxisMask& reduced) {
  Shape out;
  for (int i = 0; i < shape.ndim(); ++i)
    if (!reduced[i]) out.push_back(shape[i]);
  return out;
}

Shape result_shape(const Shape& shape, const AxisMask& reduced, bool keepdims) {
  if (keepdims) return kept_shape(shape, reduced);
  Shape out = shape_without(shape, reduced);
  if (out.ndim() == 0) out.push_back(1);
  return out;
}

int64_t reduced_size(const Shape& shape, const AxisMask& reduced) {
  int64_t n = 1;
  for (int i = 0; i < shape.ndim(); ++i)
    if (reduced[i]) n = multiply_dims(n, shape[i]);
  return n;
}

}  // namespace mxlite
