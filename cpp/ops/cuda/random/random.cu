// Draws the same numbers as the CPU's kernels: element i depends only on seed, offset and i.
#include <limits>

#include "cpp/ops/cuda/accumulate_rows.cuh"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/random.cuh"
#include "cpp/ops/cuda/reduce/cumsum.h"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/random/densities.h"
#include "cpp/ops/random/draw.h"
#include "cpp/ops/random/pdf.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using namespace mxlite::random;  // NOLINT: this file uses its distributions
using Words = mxlite::random::Stream;

struct Fill {
  double offset, scale, steps;  // result of uniform_steps for the dtype
  OpenInterval interval;        // bounds of uniform numbers
  void* out;
  DType dtype;
};

// Returns the same uniform number as the CPU kernels for `u` in [0, 1).
template <class C>
__device__ C uniform_in(const Fill& f, C u) {
  const C steps = static_cast<C>(f.steps);
  const C least = C(0.5) / steps, value = std::floor(u * steps) / steps;
  return f.interval.clamp(static_cast<C>(f.offset) +
                          static_cast<C>(f.scale) * (value < least ? least : value));
}

// One counter per thread: four elements of a block of kFillBlock.
template <bool normal>
__global__ void fill_float(int64_t n, DeviceRandom random, const __grid_constant__ Fill f) {
  constexpr int64_t kCounters = kFillBlock / 4;
  const RandomState state = random.load();
  const int64_t counters = (n + kFillBlock - 1) / kFillBlock * kCounters;
  const float a = static_cast<float>(f.offset), b = static_cast<float>(f.scale);
  for (int64_t c = global_index(); c < counters; c += grid_stride()) {
    const auto words = philox(state.seed, state.offset + static_cast<uint64_t>(c));
    float v[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) v[w] = to_uniform(words[w]);
    if constexpr (normal) {
#pragma unroll
      for (int pair = 0; pair < 4; pair += 2) {
        const float radius = std::sqrt(-2.0f * pointwise::log_of(1.0f - v[pair]));
        const SinCos angle = sincos_turn(v[pair + 1]);
        v[pair] = radius * angle.cos;
        v[pair + 1] = radius * angle.sin;
      }
    }
    const int64_t first = c / kCounters * kFillBlock + c % kCounters;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float value = normal ? a + b * v[w] : uniform_in(f, v[w]);
      if (first + w * kCounters < n) store_as<float>(f.out, f.dtype, first + w * kCounters, value);
    }
  }
}

template <bool normal>
__global__ void fill_double(int64_t n, DeviceRandom random, const __grid_constant__ Fill f) {
  constexpr int64_t kCounters = kFillBlock / 2;
  const RandomState state = random.load();
  const int64_t counters = (n + kFillBlock - 1) / kFillBlock * kCounters;
  double* const out = static_cast<double*>(f.out);
  for (int64_t c = global_index(); c < counters; c += grid_stride()) {
    const auto words = philox(state.seed, state.offset + static_cast<uint64_t>(c));
    double first = to_uniform_double(words[0], words[1]);
    double second = to_uniform_double(words[2], words[3]);
    if constexpr (normal) {
      const double radius = sqrt(-2.0 * log(1.0 - first)), angle = 6.283185307179586 * second;
      first = radius * cos(angle);
      second = radius * sin(angle);
    }
    const int64_t at = c / kCounters * kFillBlock + c % kCounters;
    if (at < n) out[at] = normal ? f.offset + f.scale * first : uniform_in(f, first);
    if (at + kCounters < n)
      out[at + kCounters] = normal ? f.offset + f.scale * second : uniform_in(f, second);
  }
}

// Fills with uniform numbers between a and b, or normal numbers with mean a and deviation b.
template <bool normal>
void fill(KernelContext& ctx, double a, double b, const TensorRef& out) {
  const int64_t n = out.size();
  const Fill f{a,        normal ? b : b - a, uniform_steps(out.dtype), {a, b, out.dtype},
               out.data, out.dtype};
  const int64_t blocks = (n + kFillBlock - 1) / kFillBlock;
  if (out.dtype == DType::kFloat64)
    launch_items(ctx, fill_double<normal>, blocks * kFillBlock / 2, n, device_random(ctx), f);
  else
    launch_items(ctx, fill_float<normal>, blocks * kFillBlock / 4, n, device_random(ctx), f);
}

// All other distributions use one stream of words per element. Parameters are numbers, or arrays
// with one entry per `row` elements.
struct Parameters {
  double a, b;
  const void *a_array = nullptr, *b_array = nullptr;
  DType dtype = DType::kFloat32;
  int64_t row = 1;
};

template <class D>
__global__ void draw_elements(int64_t n, DeviceRandom random, const __grid_constant__ Parameters p,
                              void* out, DType dtype) {
  const RandomState state = random.load();
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const double a = p.a_array ? load_any<double>(p.a_array, p.dtype, i / p.row) : p.a;
    const double b = p.b_array ? load_any<double>(p.b_array, p.dtype, i / p.row) : p.b;
    Words stream(state, i);
    store_any<double>(out, dtype, i, draw_number(D{}, stream, a, b, dtype));
  }
}

template <class D>
void fill_with(KernelContext& ctx, double a, double b, const TensorRef& out) {
  if constexpr (std::is_same_v<D, Uniform>)
    fill<false>(ctx, a, b, out);
  else if constexpr (std::is_same_v<D, Normal>)
    fill<true>(ctx, a, b, out);
  else
    launch_items(ctx, draw_elements<D>, out.size(), out.size(), device_random(ctx),
                 Parameters{a, b}, out.data, out.dtype);
}

template <class D>
void draw_numbers(KernelContext& ctx, const DrawParams<D>& p, Inputs, Outputs out) {
  random::check_numbers<D>("", p.a, p.b);
  fill_with<D>(ctx, p.a, p.b, out[0]);
}
template <class D>
void draw_like(KernelContext& ctx, const random::LikeParams<D>& p, Inputs, Outputs out) {
  random::check_numbers<D>("_like", p.a, p.b);
  fill_with<D>(ctx, p.a, p.b, out[0]);
}
template <class D>
void sample(KernelContext& ctx, const SampleParams&, Inputs in, Outputs out) {
  const Parameters p{0,           0,
                     in[0].data,  D::count == 2 ? in[1].data : nullptr,
                     in[0].dtype, out[0].size() / in[0].size()};
  launch_items(ctx, draw_elements<D>, out[0].size(), out[0].size(), device_random(ctx), p,
               out[0].data, out[0].dtype);
}

__global__ void draw_integers(int64_t n, DeviceRandom random, uint64_t low, uint64_t range,
                              void* out, DType dtype) {
  const RandomState state = random.load();
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    Words stream(state, i);
    store_any<int64_t>(out, dtype, i, static_cast<int64_t>(low + stream.below(range)));
  }
}
void randint(KernelContext& ctx, const RandintParams& p, Inputs, Outputs out) {
  const auto low = static_cast<uint64_t>(p.low);
  launch_items(ctx, draw_integers, out[0].size(), out[0].size(), device_random(ctx), low,
               static_cast<uint64_t>(p.high) - low, out[0].data, out[0].dtype);
}

// Finds the last class with nonzero probability in each row; -1 if the row is not a valid
// distribution. One block per row.
__global__ void __launch_bounds__(kThreads)
    last_classes(int64_t rows, int64_t classes, const void* data, DType dtype, const double* sums,
                 int64_t* last) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    int64_t own = -1;
    int invalid = 0;
    for (int64_t k = threadIdx.x; k < classes; k += blockDim.x) {
      const double v = load_any<double>(data, dtype, row * classes + k);
      if (v > 0) own = k;
      if (!(v >= 0)) invalid = 1;
    }
    own = block_max(own, int64_t{-1});
    invalid = block_max(invalid, 0);
    if (threadIdx.x == 0)
      last[row] = invalid || !isfinite(sums[(row + 1) * classes - 1]) ? -1 : own;
  }
}

struct Draws {
  int64_t per_row, classes;
  const double* sums;
  const int64_t* last;
  const void* data;
  DType dtype;
  void* out;
  DType out_dtype;
  void* log_prob;
  DType prob_dtype;
};
__global__ void draw_classes(int64_t n, DeviceRandom random, const __grid_constant__ Draws d) {
  const RandomState state = random.load();
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t row = i / d.per_row;
    const double* const sums = d.sums + row * d.classes;
    Words stream(state, i);
    const double level = stream.uniform() * sums[d.classes - 1];
    int64_t low = 0, high = d.classes;  // searches the first sum above `level`
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (sums[middle] > level)
        high = middle;
      else
        low = middle + 1;
    }
    int64_t index = low < d.last[row] ? low : d.last[row];
    // Because of rounding, the sums of a block may increase at a class of probability 0.
    while (index > 0 && load_any<double>(d.data, d.dtype, row * d.classes + index) == 0) --index;
    store_any<int64_t>(d.out, d.out_dtype, i, index);
    if (d.log_prob)
      store_any<double>(
          d.log_prob, d.prob_dtype, i,
          index < 0 ? nan("") : log(load_any<double>(d.data, d.dtype, row * d.classes + index)));
  }
}

void multinomial(KernelContext& ctx, const MultinomialParams& p, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  if (n == 0) return;
  const int64_t classes = in[0].shape.back(), rows = in[0].size() / classes;
  ScratchPlan plan;
  const size_t sums_at = plan.add(static_cast<size_t>(in[0].size()) * sizeof(double));
  const size_t last_at = plan.add(static_cast<size_t>(rows) * sizeof(int64_t));
  void* const block = ctx.scratch(plan.bytes());
  double* const sums = part<double>(block, sums_at);
  int64_t* const last = part<int64_t>(block, last_at);
  running_sums(ctx, in[0], rows, sums);
  launch(ctx, last_classes, blocks_per_task(ctx, rows), kThreads, rows, classes, in[0].data,
         in[0].dtype, sums, last);
  const Draws d{n / rows,
                classes,
                sums,
                last,
                in[0].data,
                in[0].dtype,
                out[0].data,
                out[0].dtype,
                p.get_prob ? out[1].data : nullptr,
                p.get_prob ? out[1].dtype : DType::kFloat32};
  launch_items(ctx, draw_classes, n, n, device_random(ctx), d);
}

// One thread adds the draws of a row, in order.
template <class C>
__global__ void draw_gradients(int64_t rows, int64_t classes, int64_t per_row, const void* grad,
                               const void* data, DType dtype, const void* draws, DType draws_dtype,
                               void* out) {
  for (int64_t row = global_index(); row < rows; row += grid_stride())
    for (int64_t i = row * per_row; i < (row + 1) * per_row; ++i) {
      const int64_t drawn = load_any<int64_t>(draws, draws_dtype, i);
      if (drawn < 0 || drawn >= classes) continue;  // the row is not a valid distribution
      const int64_t at = row * classes + drawn;
      store_as<C>(
          out, dtype, at,
          load_as<C>(out, dtype, at) + load_as<C>(grad, dtype, i) / load_as<C>(data, dtype, at));
    }
}
void multinomial_backward(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  const int64_t classes = in[1].shape.back(), rows = in[1].size() / std::max<int64_t>(classes, 1);
  if (rows == 0) return;
  const auto run = [&]<class C>(C) {
    launch_items(ctx, draw_gradients<C>, rows, rows, classes, in[2].size() / rows, in[0].data,
                 in[1].data, in[1].dtype, in[2].data, in[2].dtype, out[0].data);
  };
  if (in[1].dtype == DType::kFloat64)
    run(double{});
  else
    run(float{});
}

__global__ void write_shuffle_keys(int64_t rows, DeviceRandom random, int64_t* keys) {
  const RandomState state = random.load();
  for (int64_t i = global_index(); i < rows; i += grid_stride()) keys[i] = shuffle_key(state, i);
}
template <class Word>
__global__ void move_rows(int64_t n, int64_t row, const int64_t* order, const Word* from,
                          Word* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to[i] = from[order[i / row] * row + i % row];
}
void shuffle(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  if (in[0].size() == 0) return;
  const int64_t rows = in[0].shape[0], n = in[0].size();
  int64_t* const keys = rows_to_order(ctx, rows);
  launch_items(ctx, write_shuffle_keys, rows, rows, device_random(ctx), keys);
  const RowOrder order = order_written_rows(ctx, keys, rows, std::numeric_limits<int64_t>::max());
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, move_rows<Word>, n, n, n / rows, order.position, in[0].as<Word>(),
                 out[0].as<Word>());
  });
}

// ---- probability densities, in double, through their logarithm ----------------------------------

struct DensityArgs {
  const void *samples, *first, *second;
  void* out;
  DType dtype, first_dtype, second_dtype, out_dtype;
  bool is_log;
};
DensityArgs density_args(const PdfParams& p, Inputs in, Outputs out) {
  return {in[0].data,  in[1].data,      in.back().data, out[0].data, in[0].dtype,
          in[1].dtype, in.back().dtype, out[0].dtype,   p.is_log};
}

// `row` is the number of samples per distribution, that is, per set of parameters.
template <class D>
__global__ void densities(int64_t n, int64_t row, const __grid_constant__ DensityArgs o) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t k = i / row;
    const double value =
        D()(load_any<double>(o.samples, o.dtype, i), load_any<double>(o.first, o.first_dtype, k),
            load_any<double>(o.second, o.second_dtype, k));
    store_any(o.out, o.out_dtype, i, o.is_log ? value : exp(value));
  }
}
template <class D>
void density(KernelContext& ctx, const PdfParams& p, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  if (n > 0) launch_items(ctx, densities<D>, n, n, n / in[1].size(), density_args(p, in, out));
}

__global__ void dirichlet_densities(int64_t n, int64_t row, int64_t classes,
                                    const __grid_constant__ DensityArgs o) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    double total = 0, value = 0;
    for (int64_t c = 0; c < classes; ++c) {
      const double alpha = load_any<double>(o.first, o.first_dtype, i / row * classes + c);
      total += alpha;
      value += dirichlet_term(load_any<double>(o.samples, o.dtype, i * classes + c), alpha);
    }
    value += log_gamma(total);
    store_any(o.out, o.out_dtype, i, o.is_log ? value : exp(value));
  }
}
void dirichlet(KernelContext& ctx, const PdfParams& p, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  if (n == 0) return;
  const int64_t alphas = in[1].shape.product(0, in[1].shape.ndim() - 1);
  launch_items(ctx, dirichlet_densities, n, n, n / alphas, in[1].shape.back(),
               density_args(p, in, out));
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  mxlite::random::for_each_distribution([&]<class D>(D) {
    const std::string name = D::name;
    ops.cuda_kernel<&draw_numbers<D>>("random_" + name);
    ops.cuda_kernel<&draw_like<D>>("_random_" + name + "_like", {.strided_inputs = true});
    ops.cuda_kernel<&sample<D>>("sample_" + name);
  });
  ops.cuda_kernel<&randint>("random_randint");
  ops.cuda_kernel<&multinomial>("sample_multinomial");
  ops.cuda_kernel<&multinomial_backward>("_multinomial_backward");
  ops.cuda_kernel<&cuda::shuffle>("shuffle");
  mxlite::random::for_each_density(
      [&]<class D>(D) { ops.cuda_kernel<&density<D>>(std::string("_random_pdf_") + D::name); });
  ops.cuda_kernel<&dirichlet>("_random_pdf_dirichlet");
});

}  // namespace mxlite::cuda
