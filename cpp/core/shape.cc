#include "cpp/core/shape.h"

namespace mxlite {

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '(';
  for (int i = 0; i < shape.ndim(); ++i) {
    if (i) out << ", ";
    out << shape[i];
  }
  return out << (shape.ndim() == 1 ? ",)" : ")");
}

std::ostream& operator<<(std::ostream& out, const TensorSpec& spec) {
  return out << spec.dtype << spec.shape;
}

void Shape::throw_too_large() const {
  fail(ErrorKind::kShape, "shape ", *this, " has more elements than 64 bits can count");
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t step = 1;
  bool overflow = false;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    strides[i] = step;
    if (__builtin_mul_overflow(step, shape[i], &step)) [[unlikely]] {
      overflow = true;
      step = 0;
    }
  }
  // Throws on overflow unless the array is empty, because strides of empty arrays are never used.
  if (overflow && shape.is_known()) [[unlikely]]
    shape.size();
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  int64_t step = 1;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != step) return false;
    if (__builtin_mul_overflow(step, shape[i], &step)) return true;  // the array is empty
  }
  return true;
}

int normalize_axis(const char* op, int64_t axis, int ndim) {
  MX_CHECK_KIND(axis >= -ndim && axis < ndim, ErrorKind::kIndex, op, ": axis ", axis,
                " is out of range for an array with ", ndim, " dimensions");
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  if (a == b) return a;
  const int ndim = std::max(a.ndim(), b.ndim());
  Shape out = Shape::filled(ndim, 1);
  for (int i = 0; i < ndim; ++i) {
    const int ia = a.ndim() - 1 - i, ib = b.ndim() - 1 - i;
    const int64_t da = ia >= 0 ? a[ia] : 1, db = ib >= 0 ? b[ib] : 1;
    MX_CHECK_SHAPE(da == db || da == 1 || db == 1 || da < 0 || db < 0, op,
                   ": operands could not be broadcast together with shapes ", a, " ", b);
    out[ndim - 1 - i] = da == 1 || (da < 0 && db != 1) ? db : da;
  }
  return out;
}

}  // namespace mxlite
