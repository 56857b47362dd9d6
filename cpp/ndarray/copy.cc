#include "cpp/ndarray/copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cpp/core/parallel.h"

namespace mxlite {
namespace {

constexpr int64_t kBlock = 256;   // elements per conversion step
constexpr int64_t kGrain = 1024;  // minimum number of elements per thread

template <class T, class Wide>
void load(const void* src, int64_t stride, int64_t n, Wide* out) {
  const T* p = static_cast<const T*>(src);
  for (int64_t i = 0; i < n; ++i)
    out[i] = static_cast<Wide>(static_cast<ComputeType<T>>(p[i * stride]));
}
template <class T, class Wide>
void store(void* dst, int64_t stride, int64_t n, const Wide* in) {
  T* p = static_cast<T*>(dst);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, bool>)
      p[i * stride] = in[i] != 0;
    else
      p[i * stride] = static_cast<T>(static_cast<ComputeType<T>>(in[i]));
  }
}

// Converts via type Wide, so that 13 loads and 13 stores suffice for all 169 pairs of dtypes.
template <class Wide>
void convert_row(const StridedData& src, int64_t src_step, const StridedData& dst, int64_t dst_step,
                 int64_t n) {
  Wide buffer[kBlock];
  for (int64_t done = 0; done < n; done += kBlock) {
    const int64_t m = std::min(kBlock, n - done);
    dispatch_dtype(src.dtype, [&](auto t) {
      using T = decltype(t);
      load<T, Wide>(static_cast<const T*>(src.data) + done * src_step, src_step, m, buffer);
    });
    dispatch_dtype(dst.dtype, [&](auto t) {
      using T = decltype(t);
      store<T, Wide>(static_cast<T*>(dst.data) + done * dst_step, dst_step, m, buffer);
    });
  }
}

template <class Word>
void move_row(const StridedData& src, int64_t src_step, const StridedData& dst, int64_t dst_step,
              int64_t n) {
  const Word* from = static_cast<const Word*>(src.data);
  Word* to = static_cast<Word*>(dst.data);
  if (src_step == 0 && dst_step == 1) {
    std::fill_n(to, n, from[0]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i * dst_step] = from[i * src_step];
}

void copy_row(const StridedData& src, int64_t src_step, const StridedData& dst, int64_t dst_step,
              int64_t n) {
  if (src.dtype == dst.dtype) {
    const size_t width = dtype_size(src.dtype);
    if (src_step == 1 && dst_step == 1) {
      std::memcpy(dst.data, src.data, static_cast<size_t>(n) * width);
    } else if (width == 1) {
      move_row<uint8_t>(src, src_step, dst, dst_step, n);
    } else if (width == 2) {
      move_row<uint16_t>(src, src_step, dst, dst_step, n);
    } else if (width == 4) {
      move_row<uint32_t>(src, src_step, dst, dst_step, n);
    } else {
      move_row<uint64_t>(src, src_step, dst, dst_step, n);
    }
    return;
  }
  const bool floating = is_floating(src.dtype) || is_floating(dst.dtype);
  const bool exact_float = (is_half(src.dtype) || src.dtype == DType::kFloat32) &&
                           (is_half(dst.dtype) || dst.dtype == DType::kFloat32);
  if (exact_float)
    convert_row<float>(src, src_step, dst, dst_step, n);
  else if (floating)
    convert_row<double>(src, src_step, dst, dst_step, n);
  else
    convert_row<int64_t>(src, src_step, dst, dst_step, n);
}

DeviceCopyFn device_copy = nullptr;  // set before any use, when the plug-in is loaded

StridedData advanced(const StridedData& d, int64_t elements) {
  return {static_cast<std::byte*>(d.data) + elements * static_cast<int64_t>(dtype_size(d.dtype)),
          d.dtype, d.strides};
}

void copy_dims(const Shape& shape, int axis, const StridedData& src, const StridedData& dst) {
  if (axis >= shape.ndim() - 1) {
    const bool scalar = shape.ndim() == 0;
    copy_row(src, scalar ? 1 : src.strides[axis], dst, scalar ? 1 : dst.strides[axis],
             scalar ? 1 : shape[axis]);
    return;
  }
  for (int64_t i = 0; i < shape[axis]; ++i)
    copy_dims(shape, axis + 1, advanced(src, i * src.strides[axis]),
              advanced(dst, i * dst.strides[axis]));
}

}  // namespace

void set_device_copy(DeviceCopyFn copy) { device_copy = copy; }

void copy_strided_on(Stream& stream, const Shape& shape, const StridedData& src,
                     const StridedData& dst) {
  MX_ASSERT(device_copy);
  device_copy(stream, shape, src, dst);
}

void collapse_dimensions(Shape& shape, std::span<Strides* const> strides) {
  int out = 0;
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    if (shape[axis] == 1) continue;
    const bool joins =
        out > 0 && std::all_of(strides.begin(), strides.end(), [&](const Strides* s) {
          return (*s)[out - 1] == (*s)[axis] * shape[axis];
        });
    if (joins) {
      shape[out - 1] *= shape[axis];
      for (Strides* s : strides) (*s)[out - 1] = (*s)[axis];
      continue;
    }
    shape[out] = shape[axis];
    for (Strides* s : strides) (*s)[out] = (*s)[axis];
    ++out;
  }
  shape = Shape(shape.span().first(static_cast<size_t>(out)));
  for (Strides* s : strides) *s = Strides(s->span().first(static_cast<size_t>(out)));
}

void copy_strided(const Shape& full_shape, const StridedData& full_src, const StridedData& full_dst,
                  int threads) {
  if (full_shape.size() == 0) return;
  Shape shape = full_shape;
  StridedData src = full_src, dst = full_dst;
  const std::array<Strides*, 2> lists = {&src.strides, &dst.strides};
  collapse_dimensions(shape, lists);
  if (threads < 2 || shape.ndim() == 0) return copy_dims(shape, 0, src, dst);
  const int64_t row = shape.size() / shape[0];  // elements
  share_range(shape[0], std::max<int64_t>(1, kGrain / row), row,
              [&](int64_t first, int64_t last, int) {
                Shape piece = shape;
                piece[0] = last - first;
                copy_dims(piece, 0, advanced(src, first * src.strides[0]),
                          advanced(dst, first * dst.strides[0]));
              });
}

}  // namespace mxlite
