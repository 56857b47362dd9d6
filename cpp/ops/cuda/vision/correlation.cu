// One thread computes an output element. For the gradients, one thread per pixel gathers the terms,
// so that every run adds them in the same order.
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/correlation.h"

namespace mxlite::cuda {
namespace {

// Coordinates refer to the zero-padded images.
struct Patches {
  const void *first, *second, *grad;  // grad: gradient of the output
  DType dtype;
  int64_t channels, height, width, pad, rows, columns;
  int64_t size, start, stride;  // side of a patch, corner of the first patch, step between corners
  int64_t radius, step, moves;  // number of displacements along an axis
  bool multiply;

  Patches(const CorrelationParams& p, const TensorRef& data1, const TensorRef& data2)
      : first(data1.data),
        second(data2.data),
        grad(nullptr),
        dtype(data1.dtype),
        channels(data1.shape[1]),
        height(data1.shape[2]),
        width(data1.shape[3]),
        pad(p.pad_size),
        rows(p.patches(height)),
        columns(p.patches(width)),
        size(p.kernel_size),
        start(p.max_displacement),
        stride(p.stride1),
        radius(p.radius()),
        step(p.stride2),
        moves(p.displacements()),
        multiply(p.is_multiply) {}

  __device__ int64_t down(int64_t move) const { return (move / moves - radius) * step; }
  __device__ int64_t right(int64_t move) const { return (move % moves - radius) * step; }
  template <class C>
  __device__ C count() const {
    return static_cast<C>(size * size * channels);
  }
  template <class C>
  __device__ C pixel(const void* images, int64_t plane, int64_t y, int64_t x) const {
    y -= pad;
    x -= pad;
    if (y < 0 || y >= height || x < 0 || x >= width) return C(0);
    return load_as<C>(images, dtype, (plane * height + y) * width + x);
  }
  // Returns the patch along an axis whose element `within` lies at `place`, or -1.
  __device__ int64_t patch_at(int64_t place, int64_t within, int64_t patches) const {
    const int64_t corner = place - start - within;
    if (corner < 0 || corner % stride != 0 || corner / stride >= patches) return -1;
    return corner / stride;
  }
};

template <class C>
__global__ void correlation_kernel(int64_t n, const __grid_constant__ Patches p, void* out) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t j = at % p.columns, i = at / p.columns % p.rows;
    const int64_t plane = at / (p.columns * p.rows), move = plane % (p.moves * p.moves);
    const int64_t image = plane / (p.moves * p.moves);
    C sum = 0;
    for (int64_t c = image * p.channels; c < (image + 1) * p.channels; ++c)
      for (int64_t h = 0; h < p.size; ++h)
        for (int64_t w = 0; w < p.size; ++w) {
          const int64_t y = p.start + i * p.stride + h, x = p.start + j * p.stride + w;
          const C a = p.pixel<C>(p.first, c, y, x);
          const C b = p.pixel<C>(p.second, c, y + p.down(move), x + p.right(move));
          sum += p.multiply ? a * b : a >= b ? a - b : b - a;
        }
    store_as<C>(out, p.dtype, at, sum / p.count<C>());
  }
}

// Computes the gradient of data2 if kSecond, otherwise of data1.
template <class C, bool kSecond>
__global__ void correlation_backward_kernel(int64_t n, const __grid_constant__ Patches p,
                                            void* out) {
  const int64_t moves = p.moves * p.moves;
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t column = at % p.width + p.pad, row = at / p.width % p.height + p.pad;
    const int64_t plane = at / (p.width * p.height), image = plane / p.channels;
    C sum = 0;
    for (int64_t move = 0; move < moves; ++move) {
      // Position of the pair of pixels in data1.
      const int64_t y = kSecond ? row - p.down(move) : row;
      const int64_t x = kSecond ? column - p.right(move) : column;
      C grad = 0;
      for (int64_t h = 0; h < p.size; ++h) {
        const int64_t i = p.patch_at(y, h, p.rows);
        for (int64_t w = 0; i >= 0 && w < p.size; ++w) {
          const int64_t j = p.patch_at(x, w, p.columns);
          if (j < 0) continue;
          const int64_t from = ((image * moves + move) * p.rows + i) * p.columns + j;
          grad += load_as<C>(p.grad, p.dtype, from);
        }
      }
      const C a = p.pixel<C>(p.first, plane, y, x);
      const C b = p.pixel<C>(p.second, plane, y + p.down(move), x + p.right(move));
      if (p.multiply)
        sum += grad * (kSecond ? a : b);
      else
        sum += (a >= b) != kSecond ? grad : -grad;
    }
    store_as<C>(out, p.dtype, at, sum / p.count<C>());
  }
}

void correlation(KernelContext& ctx, const CorrelationParams& params, Inputs in, Outputs out) {
  const Patches p(params, in[0], in[1]);
  dispatch_float_compute(p.dtype, [&]<class C>(C) {
    launch_items(ctx, correlation_kernel<C>, out[0].size(), out[0].size(), p, out[0].data);
  });
}

// `in`: output_grad, data1, data2.
void correlation_backward(KernelContext& ctx, const CorrelationParams& params, Inputs in,
                          Outputs out) {
  Patches p(params, in[1], in[2]);
  p.grad = in[0].data;
  const int64_t n = out[0].size();
  dispatch_float_compute(p.dtype, [&]<class C>(C) {
    launch_items(ctx, correlation_backward_kernel<C, false>, n, n, p, out[0].data);
    launch_items(ctx, correlation_backward_kernel<C, true>, n, n, p, out[1].data);
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::correlation>("Correlation");
  ops.cuda_kernel<&cuda::correlation_backward>("_correlation_backward");
});

}  // namespace mxlite::cuda
