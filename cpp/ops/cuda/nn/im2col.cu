#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/im2col.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

// The matrix has a row per channel and kernel position, and a column per window.
struct Windows {
  SpatialWindow w;
  int64_t size[3], count[3];  // size of the image, and number of windows
  int64_t kernel_size, windows, pixels, planes;
  DType dtype;
};
Windows windows_of(const Im2colParams& p, const TensorRef& image) {
  const SpatialDims d = spatial_dims(image.shape, /*channels_last=*/false);
  const Shape counts = im2col_counts("im2col", p, image.shape.span().subspan(2));
  Windows a{};
  a.w = p.window();
  for (int k = 0; k < 3; ++k) {
    a.size[k] = d.size[k];
    const int axis = k - (3 - counts.ndim());
    a.count[k] = axis < 0 ? 1 : counts[axis];
  }
  a.kernel_size = a.w.kernel_size();
  a.windows = a.count[0] * a.count[1] * a.count[2];
  a.pixels = d.spatial_size();
  a.planes = d.batch * d.channels;
  a.dtype = image.dtype;
  return a;
}

struct Coordinates {
  int64_t at[3];
  __device__ Coordinates(int64_t i, const int64_t (&size)[3])
      : at{i / size[2] / size[1], i / size[2] % size[1], i % size[2]} {}
};

template <class C>
__global__ void unfold(int64_t n, const __grid_constant__ Windows a, const void* image, void* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Coordinates window(i % a.windows, a.count);
    const int64_t row = i / a.windows, plane = row / a.kernel_size;
    const Coordinates tap(row % a.kernel_size, a.w.kernel);
    int64_t pixel = 0;
    bool inside = true;
    for (int k = 0; k < 3; ++k) {
      const int64_t at = window.at[k] * a.w.stride[k] + tap.at[k] * a.w.dilate[k] - a.w.pad[k];
      inside &= at >= 0 && at < a.size[k];
      pixel = pixel * a.size[k] + at;
    }
    store_as<C>(out, a.dtype, i,
                inside ? load_as<C>(image, a.dtype, plane * a.pixels + pixel) : C(0));
  }
}

// A thread computes one pixel as the sum of its copies in all windows.
template <class C>
__global__ void fold(int64_t n, const __grid_constant__ Windows a, const void* matrix, void* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Coordinates pixel(i % a.pixels, a.size);
    const int64_t plane = i / a.pixels;
    C sum = C(0);
    for (int64_t t = 0; t < a.kernel_size; ++t) {
      const Coordinates tap(t, a.w.kernel);
      int64_t window = 0;
      bool inside = true;
      for (int k = 0; k < 3; ++k) {
        const int64_t start = pixel.at[k] + a.w.pad[k] - tap.at[k] * a.w.dilate[k];
        const int64_t at = start / a.w.stride[k];
        inside &= start >= 0 && start % a.w.stride[k] == 0 && at < a.count[k];
        window = window * a.count[k] + at;
      }
      if (inside)
        sum += load_as<C>(matrix, a.dtype, (plane * a.kernel_size + t) * a.windows + window);
    }
    store_as<C>(out, a.dtype, i, sum);
  }
}

void im2col(KernelContext& ctx, const Im2colParams& p, Inputs in, Outputs out) {
  const Windows a = windows_of(p, in[0]);
  dispatch_sum(a.dtype, [&]<class C>(C) {
    launch_items(ctx, unfold<C>, out[0].size(), out[0].size(), a, in[0].data, out[0].data);
  });
}
void col2im(KernelContext& ctx, const Col2imParams& p, Inputs in, Outputs out) {
  const Windows a = windows_of(p, out[0]);
  dispatch_sum(a.dtype, [&]<class C>(C) {
    launch_items(ctx, fold<C>, out[0].size(), out[0].size(), a, in[0].data, out[0].data);
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::im2col>("im2col");
  ops.cuda_kernel<&cuda::col2im>("col2im");
});

}  // namespace mxlite::cuda
