// Contiguous copies use cudaMemcpyAsync. Strided copies use one thread per element and have a
// kernel for each element width. Conversions have a kernel for each source dtype. This kernel
// branches on the destination's dtype, and all threads take the same branch.
#include <algorithm>
#include <array>

#include "cpp/core/cuda/check.h"
#include "cpp/core/cuda/stream.h"
#include "cpp/ndarray/cuda/copy.h"

namespace mxlite::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;  // for larger arrays, each thread loops over several elements

// Computes the offsets of element i in both arrays.
template <class Index>
struct Axes {
  int ndim;
  Index size[Shape::kMaxNdim];
  int64_t from[Shape::kMaxNdim], to[Shape::kMaxNdim];

  __device__ void offsets(Index i, int64_t& src, int64_t& dst) const {
    src = dst = 0;
    for (int axis = ndim - 1; axis >= 0; --axis) {
      const Index above = i / size[axis], at = i - above * size[axis];
      src += at * from[axis];
      dst += at * to[axis];
      i = above;
    }
  }
};

template <class Index>
__device__ Index first_item() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
template <class Index>
__device__ Index item_step() {
  return static_cast<Index>(gridDim.x) * blockDim.x;
}

template <class Word, class Index>
__global__ void move_kernel(const Word* src, Word* dst, Index n, Axes<Index> axes) {
  for (Index i = first_item<Index>(); i < n; i += item_step<Index>()) {
    int64_t from, to;
    axes.offsets(i, from, to);
    dst[to] = src[from];
  }
}

// Converts like the CPU: a float outside the range of an n-bit integer wraps modulo 2^n.
template <class T, class Wide>
__device__ T narrow(Wide value) {
  if constexpr (std::is_same_v<T, bool>)
    return value != 0;
  else if constexpr (std::is_integral_v<T> && sizeof(T) < 8)
    return static_cast<T>(static_cast<int64_t>(value));
  else
    return static_cast<T>(static_cast<ComputeType<T>>(value));
}

template <class Wide>
__device__ void store(void* dst, DType dtype, int64_t i, Wide value) {
  const auto put = [&](auto t) {
    using T = decltype(t);
    static_cast<T*>(dst)[i] = narrow<T>(value);
  };
  switch (dtype) {
    case DType::kFloat32:
      return put(float{});
    case DType::kFloat64:
      return put(double{});
    case DType::kFloat16:
      return put(float16{});
    case DType::kBFloat16:
      return put(bfloat16{});
    case DType::kBool:
      return put(bool{});
    case DType::kInt8:
      return put(int8_t{});
    case DType::kInt16:
      return put(int16_t{});
    case DType::kInt32:
      return put(int32_t{});
    case DType::kInt64:
      return put(int64_t{});
    case DType::kUInt8:
      return put(uint8_t{});
    case DType::kUInt16:
      return put(uint16_t{});
    case DType::kUInt32:
      return put(uint32_t{});
    case DType::kUInt64:
      return put(uint64_t{});
  }
}

// Converts integers to halves and floats via double, as on the CPU.
template <class T>
__global__ void convert_kernel(const T* src, void* dst, DType dtype, bool to_floating, int64_t n,
                               Axes<int64_t> axes) {
  for (int64_t i = first_item<int64_t>(); i < n; i += item_step<int64_t>()) {
    int64_t from, to;
    axes.offsets(i, from, to);
    const auto value = static_cast<ComputeType<T>>(src[from]);
    if (std::is_integral_v<T> && to_floating)
      store(dst, dtype, to, static_cast<double>(value));
    else
      store(dst, dtype, to, value);
  }
}

template <class Index>
Axes<Index> axes_of(const Shape& shape, const Strides& from, const Strides& to) {
  Axes<Index> axes{};
  axes.ndim = shape.ndim();
  for (int i = 0; i < shape.ndim(); ++i) {
    axes.size[i] = static_cast<Index>(shape[i]);
    axes.from[i] = from[i];
    axes.to[i] = to[i];
  }
  return axes;
}

unsigned blocks_for(int64_t n) {
  return static_cast<unsigned>(std::min((n + kThreads - 1) / kThreads, kMostBlocks));
}

template <class Word>
void move(cudaStream_t stream, const Shape& shape, const StridedData& src, const StridedData& dst) {
  const int64_t n = shape.size();
  const auto* from = static_cast<const Word*>(src.data);
  auto* to = static_cast<Word*>(dst.data);
  if (n < int64_t{1} << 31)  // 32-bit divisions are much faster
    move_kernel<Word, uint32_t><<<blocks_for(n), kThreads, 0, stream>>>(
        from, to, static_cast<uint32_t>(n), axes_of<uint32_t>(shape, src.strides, dst.strides));
  else
    move_kernel<Word, int64_t><<<blocks_for(n), kThreads, 0, stream>>>(
        from, to, n, axes_of<int64_t>(shape, src.strides, dst.strides));
  MX_CUDA_LAUNCHED("move_kernel");
}

template <class T>
void convert(cudaStream_t stream, const Shape& shape, const StridedData& src,
             const StridedData& dst) {
  const int64_t n = shape.size();
  convert_kernel<T><<<blocks_for(n), kThreads, 0, stream>>>(
      static_cast<const T*>(src.data), dst.data, dst.dtype, is_floating(dst.dtype), n,
      axes_of<int64_t>(shape, src.strides, dst.strides));
  MX_CUDA_LAUNCHED("convert_kernel");
}

}  // namespace

void copy_strided(Stream& stream, const Shape& full_shape, const StridedData& full_src,
                  const StridedData& full_dst) {
  if (full_shape.size() == 0) return;
  Shape shape = full_shape;
  StridedData src = full_src, dst = full_dst;
  const std::array<Strides*, 2> lists = {&src.strides, &dst.strides};
  collapse_dimensions(shape, lists);
  const cudaStream_t raw = static_cast<CudaStream&>(stream).raw();
  if (src.dtype != dst.dtype) {
    dispatch_dtype(src.dtype, [&](auto t) { convert<decltype(t)>(raw, shape, src, dst); });
    return;
  }
  const size_t width = dtype_size(src.dtype);
  if (shape.ndim() == 0 || (shape.ndim() == 1 && src.strides[0] == 1 && dst.strides[0] == 1)) {
    MX_CUDA(cudaMemcpyAsync(dst.data, src.data, static_cast<size_t>(shape.size()) * width,
                            cudaMemcpyDeviceToDevice, raw));
  } else if (width == 1) {
    move<uint8_t>(raw, shape, src, dst);
  } else if (width == 2) {
    move<uint16_t>(raw, shape, src, dst);
  } else if (width == 4) {
    move<uint32_t>(raw, shape, src, dst);
  } else {
    move<uint64_t>(raw, shape, src, dst);
  }
}

}  // namespace mxlite::cuda
