// Gradients are gathered: one thread per input pixel adds the contributions of all outputs that
// read the pixel, in a fixed order.
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/image_resize.h"
#include "cpp/ops/nn/resize_sample.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

struct Planes {
  int64_t height, width, out_height, out_width;
  bool align_corners;
  DType dtype;
};
Planes planes(const Shape& data, const Shape& output, bool align_corners, DType dtype) {
  return {data[2], data[3], output[2], output[3], align_corners, dtype};
}

struct Place {
  int64_t plane, row, column;
  __device__ Place(int64_t i, int64_t height, int64_t width)
      : plane(i / width / height), row(i / width % height), column(i % width) {}
};

// Input rows (or columns) [begin, end) from which output position i is computed.
struct PoolRange {
  int64_t begin, end;
  __device__ PoolRange(int64_t i, int64_t size, int64_t out_size)
      : begin(i * size / out_size), end(((i + 1) * size + out_size - 1) / out_size) {}
  __device__ int64_t length() const { return end - begin; }
};

template <class C>
__global__ void adaptive_pool(int64_t n, Planes q, const void* x, void* y) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Place at(i, q.out_height, q.out_width);
    const PoolRange rows(at.row, q.height, q.out_height);
    const PoolRange columns(at.column, q.width, q.out_width);
    C sum = C(0);
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t c = columns.begin; c < columns.end; ++c)
        sum += load_as<C>(x, q.dtype, (at.plane * q.height + r) * q.width + c);
    store_as<C>(y, q.dtype, i, sum / static_cast<C>(rows.length() * columns.length()));
  }
}

template <class C>
__global__ void adaptive_pool_gradient(int64_t n, Planes q, const void* grad, void* out) {
  const auto last = [](int64_t r, int64_t size, int64_t out_size) {
    return ((r + 1) * out_size + size - 1) / size - 1;
  };
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Place at(i, q.height, q.width);
    C sum = C(0);
    for (int64_t r = at.row * q.out_height / q.height; r <= last(at.row, q.height, q.out_height);
         ++r)
      for (int64_t c = at.column * q.out_width / q.width;
           c <= last(at.column, q.width, q.out_width); ++c) {
        const int64_t count = PoolRange(r, q.height, q.out_height).length() *
                              PoolRange(c, q.width, q.out_width).length();
        sum += load_as<C>(grad, q.dtype, (at.plane * q.out_height + r) * q.out_width + c) /
               static_cast<C>(count);
      }
    store_as<C>(out, q.dtype, i, sum);
  }
}

// Output positions [begin, end) that may read input position r; some may have weight 0.
struct Readers {
  int64_t begin, end;
  __device__ Readers(int64_t r, int64_t size, int64_t out_size, bool align_corners) : begin(0) {
    end = out_size;
    const int64_t steps = align_corners ? out_size - 1 : out_size;
    const int64_t length = align_corners ? size - 1 : size;
    if (length <= 0 || steps <= 0) return;
    const double scale = static_cast<double>(steps) / static_cast<double>(length);
    const double shift = align_corners ? 0 : 0.5;
    const auto position = [&](int64_t at) {
      return (static_cast<double>(at) + shift) * scale - shift;
    };
    const auto low = static_cast<int64_t>(floor(position(r - 1))) - 1;
    const auto high = static_cast<int64_t>(ceil(position(r + 1))) + 2;
    if (low > 0) begin = low;
    if (high < end) end = high;
  }
};

template <class C>
__global__ void bilinear_resize(int64_t n, Planes q, const void* x, void* y) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Place at(i, q.out_height, q.out_width);
    const ResizeSample row(at.row, q.height, q.out_height, q.align_corners);
    const ResizeSample column(at.column, q.width, q.out_width, q.align_corners);
    const C down = static_cast<C>(row.weight), right = static_cast<C>(column.weight);
    const auto between = [&](int64_t r) {
      const int64_t line = (at.plane * q.height + r) * q.width;
      return load_as<C>(x, q.dtype, line + column.first) * (1 - right) +
             load_as<C>(x, q.dtype, line + column.second) * right;
    };
    store_as<C>(y, q.dtype, i, between(row.first) * (1 - down) + between(row.second) * down);
  }
}

template <class C>
__global__ void bilinear_resize_gradient(int64_t n, Planes q, const void* grad, void* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Place at(i, q.height, q.width);
    const Readers rows(at.row, q.height, q.out_height, q.align_corners);
    const Readers columns(at.column, q.width, q.out_width, q.align_corners);
    C sum = C(0);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const auto down = static_cast<C>(
          ResizeSample(r, q.height, q.out_height, q.align_corners).weight_of(at.row));
      if (down == C(0)) continue;
      const int64_t line = (at.plane * q.out_height + r) * q.out_width;
      for (int64_t c = columns.begin; c < columns.end; ++c) {
        const auto right = static_cast<C>(
            ResizeSample(c, q.width, q.out_width, q.align_corners).weight_of(at.column));
        if (right != C(0)) sum += load_as<C>(grad, q.dtype, line + c) * down * right;
      }
    }
    store_as<C>(out, q.dtype, i, sum);
  }
}

// The kernels of one operation for float and for double.
using PlaneKernel = void (*)(int64_t, Planes, const void*, void*);
void run(KernelContext& ctx, PlaneKernel single, PlaneKernel wide, const Planes& q,
         const TensorRef& in, const TensorRef& out) {
  launch_items(ctx, q.dtype == DType::kFloat64 ? wide : single, out.size(), out.size(), q, in.data,
               out.data);
}

void adaptive_pooling(KernelContext& ctx, const AdaptiveAvgPoolingParams&, Inputs in, Outputs out) {
  run(ctx, adaptive_pool<float>, adaptive_pool<double>,
      planes(in[0].shape, out[0].shape, false, in[0].dtype), in[0], out[0]);
}
void adaptive_pooling_backward(KernelContext& ctx, const ImageResizeGradParams&, Inputs in,
                               Outputs out) {
  run(ctx, adaptive_pool_gradient<float>, adaptive_pool_gradient<double>,
      planes(out[0].shape, in[0].shape, false, in[0].dtype), in[0], out[0]);
}
void bilinear(KernelContext& ctx, const BilinearResizeParams& p, Inputs in, Outputs out) {
  run(ctx, bilinear_resize<float>, bilinear_resize<double>,
      planes(in[0].shape, out[0].shape, p.align_corners, in[0].dtype), in[0], out[0]);
}
void bilinear_backward(KernelContext& ctx, const ImageResizeGradParams& p, Inputs in, Outputs out) {
  run(ctx, bilinear_resize_gradient<float>, bilinear_resize_gradient<double>,
      planes(out[0].shape, in[0].shape, p.align_corners, in[0].dtype), in[0], out[0]);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::adaptive_pooling>("_contrib_AdaptiveAvgPooling2D");
  ops.cuda_kernel<&cuda::adaptive_pooling_backward>("_adaptive_avg_pooling_backward");
  ops.cuda_kernel<&cuda::bilinear>("_contrib_BilinearResize2D");
  ops.cuda_kernel<&cuda::bilinear_backward>("_bilinear_resize_backward");
});

}  // namespace mxlite::cuda
