// Fourier transforms of rows. A block transforms a row in shared memory. Rows that do not fit use
// global memory, with a launch per pass. Lengths, precision and method are the same as on the CPU.
#include <algorithm>
#include <utility>

#include "cpp/ops/contrib/fft.h"
#include "cpp/ops/cpu/contrib/fft_numbers.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using fft::Complex;

constexpr size_t kSharedBytes = 48 << 10;
constexpr int64_t kPanelBytes = 64 << 20;  // scratch memory of rows that are transformed together

template <class R>
struct Transform {
  int64_t n, m;  // length of a row, and length of a pass
  const void* data;
  void* out;
  DType dtype;
  bool inverse;                 // loads conjugates, because the real part then equals that of the
                                // inverse transform
  Complex<R>* roots;            // m elements
  Complex<R>* chirp = nullptr;  // n elements, or null if n is a power of two
  Complex<R>* filter = nullptr;

  __device__ Complex<R> load(int64_t row, int64_t k) const {
    if (k >= n) return {0, 0};
    const int64_t i = row * n + k;
    const Complex<R> value =
        inverse ? Complex<R>{load_any<R>(data, dtype, 2 * i), -load_any<R>(data, dtype, 2 * i + 1)}
                : Complex<R>{load_any<R>(data, dtype, i), 0};
    return chirp ? value * chirp[k] : value;
  }
  __device__ void store(int64_t row, int64_t k, Complex<R> value) const {
    if (k >= n) return;
    const int64_t i = row * n + k;
    if (chirp) value = value.conj() * chirp[k];
    if (inverse) {
      store_any<R>(out, dtype, i, value.re);
    } else {
      store_any<R>(out, dtype, 2 * i, value.re);
      store_any<R>(out, dtype, 2 * i + 1, value.im);
    }
  }
};

// Computes butterfly i of a pass over one row: one of m / 4 for radix 4, or of m / 2 for radix 2.
template <class R>
__device__ void pass_butterfly(const Complex<R>* from, Complex<R>* to, const Complex<R>* roots,
                               int64_t length, int64_t stride, int64_t i) {
  if (length == 2) {
    const Complex<R> a = from[i], b = from[i + stride];
    to[i] = a + b;
    to[i + stride] = a - b;
    return;
  }
  const int64_t turn = i / stride * stride;
  fft::butterfly(from + i, length / 4 * stride, to + 4 * turn + i % stride, stride, roots[turn],
                 roots[2 * turn], roots[3 * turn]);
}

// Runs all passes over a row in shared memory. Returns the address of the result.
template <class R>
__device__ Complex<R>* row_passes(const Transform<R>& t, Complex<R>* from, Complex<R>* to) {
  int64_t stride = 1;
  for (int64_t length = t.m; length > 1;) {
    const int radix = length >= 4 ? 4 : 2;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < t.m / radix; i += blockDim.x)
      pass_butterfly(from, to, t.roots, length, stride, i);
    Complex<R>* const written = to;
    to = from;
    from = written;
    length /= radix;
    stride *= radix;
  }
  __syncthreads();
  return from;
}

template <class R>
__global__ void transform_rows(int64_t rows, const __grid_constant__ Transform<R> t) {
  MX_DYNAMIC_SHARED(double, shared);  // memory for two rows
  auto* const first = reinterpret_cast<Complex<R>*>(shared);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (int64_t k = threadIdx.x; k < t.m; k += blockDim.x) first[k] = t.load(row, k);
    Complex<R>* result = row_passes(t, first, first + t.m);
    if (t.filter) {
      for (int64_t k = threadIdx.x; k < t.m; k += blockDim.x)
        result[k] = (result[k] * t.filter[k]).conj();
      result = row_passes(t, result, result == first ? first + t.m : first);
    }
    for (int64_t k = threadIdx.x; k < t.n; k += blockDim.x) t.store(row, k, result[k]);
    __syncthreads();  // because the next row overwrites the result
  }
}

template <class R>
__global__ void fill_tables(const __grid_constant__ Transform<R> t) {
  for (int64_t k = global_index(); k < t.m; k += grid_stride()) {
    t.roots[k] = fft::root_of_unity<R>(k, t.m);
    if (t.chirp && k < t.n) t.chirp[k] = fft::chirp<R>(k, t.n);
  }
}

// Writes the sequence that Bluestein's method convolves with, before its transform.
template <class R>
__global__ void fill_filter(const __grid_constant__ Transform<R> t, Complex<R>* to) {
  for (int64_t k = global_index(); k < t.m; k += grid_stride()) {
    const int64_t from_end = t.m - k;
    to[k] = k < t.n          ? t.chirp[k].conj()
            : from_end < t.n ? t.chirp[from_end].conj()
                             : Complex<R>{0, 0};
  }
}
// Stores the transformed sequence, multiplied by the scale of the inverse transform.
template <class R>
__global__ void scale_filter(const __grid_constant__ Transform<R> t, const Complex<R>* from) {
  for (int64_t k = global_index(); k < t.m; k += grid_stride())
    t.filter[k] = from[k] * (1 / static_cast<R>(t.m));
}

template <class R>
__global__ void load_panel(int64_t count, const __grid_constant__ Transform<R> t, int64_t row,
                           Complex<R>* to) {
  for (int64_t i = global_index(); i < count; i += grid_stride())
    to[i] = t.load(row + i / t.m, i % t.m);
}
template <class R>
__global__ void pass_panel(int64_t count, int64_t m, const Complex<R>* roots,
                           const Complex<R>* from, Complex<R>* to, int64_t length, int64_t stride) {
  const int64_t of_row = m / (length >= 4 ? 4 : 2);
  for (int64_t i = global_index(); i < count; i += grid_stride()) {
    const int64_t begin = i / of_row * m;
    pass_butterfly(from + begin, to + begin, roots, length, stride, i % of_row);
  }
}
template <class R>
__global__ void filter_panel(int64_t count, const __grid_constant__ Transform<R> t,
                             Complex<R>* values) {
  for (int64_t i = global_index(); i < count; i += grid_stride())
    values[i] = (values[i] * t.filter[i % t.m]).conj();
}
template <class R>
__global__ void store_panel(int64_t count, const __grid_constant__ Transform<R> t, int64_t row,
                            const Complex<R>* from) {
  for (int64_t i = global_index(); i < count; i += grid_stride())
    t.store(row + i / t.m, i % t.m, from[i]);
}

// Runs all passes over rows in global memory; swaps `from` and `to` after each pass.
template <class R>
void panel_passes(KernelContext& ctx, const Transform<R>& t, int64_t rows, Complex<R>*& from,
                  Complex<R>*& to) {
  int64_t stride = 1;
  for (int64_t length = t.m; length > 1;) {
    const int radix = length >= 4 ? 4 : 2;
    const int64_t count = rows * (t.m / radix);
    launch_items(ctx, pass_panel<R>, count, count, t.m, t.roots, from, to, length, stride);
    std::swap(from, to);
    length /= radix;
    stride *= radix;
  }
}

template <class R>
void transform(KernelContext& ctx, int64_t rows, Transform<R> t) {
  t.m = fft::inner_length(t.n);
  const bool is_power = t.m == t.n;
  const auto row_bytes = static_cast<int64_t>(2 * sizeof(Complex<R>)) * t.m;
  const bool fits = static_cast<size_t>(row_bytes) <= kSharedBytes;
  const int64_t panel = fits ? 1 : std::clamp<int64_t>(kPanelBytes / row_bytes, 1, rows);
  const auto bytes_of = [](int64_t count) {
    return static_cast<size_t>(count) * sizeof(Complex<R>);
  };
  ScratchPlan plan;
  const size_t roots_at = plan.add(bytes_of(t.m));
  const size_t chirp_at = plan.add(is_power ? 0 : bytes_of(t.n));
  const size_t filter_at = plan.add(is_power ? 0 : bytes_of(t.m));
  const bool needs_work = !fits || !is_power;
  const size_t first_at = plan.add(needs_work ? bytes_of(panel * t.m) : 0);
  const size_t second_at = plan.add(needs_work ? bytes_of(panel * t.m) : 0);
  void* const block = ctx.scratch(plan.bytes());
  t.roots = part<Complex<R>>(block, roots_at);
  if (!is_power) t.chirp = part<Complex<R>>(block, chirp_at);
  launch_items(ctx, fill_tables<R>, t.m, t);
  Complex<R>*from = part<Complex<R>>(block, first_at), *to = part<Complex<R>>(block, second_at);
  if (!is_power) {
    launch_items(ctx, fill_filter<R>, t.m, t, from);
    panel_passes(ctx, t, 1, from, to);
    t.filter = part<Complex<R>>(block, filter_at);
    launch_items(ctx, scale_filter<R>, t.m, t, from);
  }
  if (fits) {
    launch_shared(ctx, transform_rows<R>, blocks_per_task(ctx, rows), kThreads,
                  static_cast<size_t>(row_bytes), rows, t);
    return;
  }
  for (int64_t row = 0; row < rows; row += panel) {
    const int64_t some = std::min(panel, rows - row), count = some * t.m;
    launch_items(ctx, load_panel<R>, count, count, t, row, from);
    panel_passes(ctx, t, some, from, to);
    if (t.filter) {
      launch_items(ctx, filter_panel<R>, count, count, t, from);
      panel_passes(ctx, t, some, from, to);
    }
    launch_items(ctx, store_panel<R>, count, count, t, row, from);
  }
}

void run(KernelContext& ctx, const TensorRef& data, const TensorRef& out, int64_t n, bool inverse) {
  if (out.size() == 0) return;
  const int64_t rows = out.size() / (inverse ? n : 2 * n);
  const auto of = [&]<class R>(R) {
    transform<R>(ctx, rows, {n, 0, data.data, out.data, data.dtype, inverse, nullptr});
  };
  // Bluestein's sums need double.
  if (fft::power_of_two(n) && data.dtype != DType::kFloat64)
    of(float{});
  else
    of(double{});
}

void forward(KernelContext& ctx, const FftParams&, Inputs in, Outputs out) {
  run(ctx, in[0], out[0], in[0].shape.back(), false);
}
void inverse(KernelContext& ctx, const FftParams&, Inputs in, Outputs out) {
  run(ctx, in[0], out[0], out[0].shape.back(), true);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::forward>("_contrib_fft");
  ops.cuda_kernel<&cuda::inverse>("_contrib_ifft");
});

}  // namespace mxlite::cuda
