// A thread processes a row of buckets and reads the elements in order, so that every run gives the
// same sums. A GPU kernel cannot throw like the CPU kernel; it skips elements whose bucket does not
// exist.
#include "cpp/ops/contrib/count_sketch.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/sums.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

struct Sketch {
  int64_t depth, buckets;
  const void *hash, *sign;
  DType hash_dtype, dtype;

  Sketch(const CountSketchParams& p, const TensorRef& h, const TensorRef& s)
      : depth(h.size()),
        buckets(p.out_dim),
        hash(h.data),
        sign(s.data),
        hash_dtype(h.dtype),
        dtype(s.dtype) {}
  // Returns the bucket of element i, or -1 if there is no such bucket.
  __device__ int64_t bucket(int64_t i) const {
    const int64_t b = load_any<int64_t>(hash, hash_dtype, i);
    return b >= 0 && b < buckets ? b : -1;
  }
};

template <class C>
__global__ void count_sketch_kernel(int64_t rows, const __grid_constant__ Sketch s,
                                    const void* data, C* sums) {
  for (int64_t r = global_index(); r < rows; r += grid_stride()) {
    C* const own = sums + r * s.buckets;
    for (int64_t i = 0; i < s.depth; ++i) {
      const int64_t b = s.bucket(i);
      if (b < 0) continue;
      own[b] += load_as<C>(s.sign, s.dtype, i) * load_as<C>(data, s.dtype, r * s.depth + i);
    }
  }
}

template <class C>
__global__ void count_sketch_backward_kernel(int64_t n, const __grid_constant__ Sketch s,
                                             const void* grad, void* out) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t i = at % s.depth, b = s.bucket(i);
    C value = 0;
    if (b >= 0)
      value =
          load_as<C>(s.sign, s.dtype, i) * load_as<C>(grad, s.dtype, at / s.depth * s.buckets + b);
    store_as<C>(out, s.dtype, at, value);
  }
}

void count_sketch(KernelContext& ctx, const CountSketchParams& p, Inputs in, Outputs out) {
  const Sketch s(p, in[1], in[2]);
  const int64_t rows = in[0].shape.product(0, in[0].shape.ndim() - 1);
  with_sums(ctx, out[0], [&]<class C>(C* sums) {
    launch_items(ctx, count_sketch_kernel<C>, rows, rows, s, in[0].data, sums);
  });
}

// `in`: output_grad, h, s.
void count_sketch_backward(KernelContext& ctx, const CountSketchParams& p, Inputs in, Outputs out) {
  const Sketch s(p, in[1], in[2]);
  dispatch_float_compute(s.dtype, [&]<class C>(C) {
    launch_items(ctx, count_sketch_backward_kernel<C>, out[0].size(), out[0].size(), s, in[0].data,
                 out[0].data);
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::count_sketch>("_contrib_count_sketch");
  ops.cuda_kernel<&cuda::count_sketch_backward>("_count_sketch_backward");
});

}  // namespace mxlite::cuda
