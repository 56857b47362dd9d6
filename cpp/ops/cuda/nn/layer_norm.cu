// LayerNorm, GroupNorm and InstanceNorm are one computation on rows: each row gets mean 0 and
// variance 1, then runs of its elements get a gamma and beta of their own. One block per row.
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/channel_blocks.h"
#include "cpp/ops/nn/layer_norm.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace cuda {
namespace {

struct Rows {
  int64_t count, length;
  int64_t inner = 1;  // rows that are interleaved; 1: a row is contiguous
  int64_t cycle = 1;  // rows r and r + cycle share gamma
  int64_t run = 1;    // neighbouring elements with the same gamma
  double eps;

  __host__ __device__ int64_t first(int64_t r) const {
    return r / inner * length * inner + r % inner;
  }
  __host__ __device__ int64_t params_per_row() const { return length / (run > 1 ? run : 1); }
  __device__ int64_t first_param(int64_t r) const { return r % cycle * params_per_row(); }
};

Rows make_rows(const LayerNormParams& p, const Shape& data, const Shape&) {
  const ChannelBlocks b = channel_blocks(data, p.axis);
  return {.count = b.outer * b.inner, .length = b.channels, .inner = b.inner, .eps = p.eps};
}
Rows make_rows(const GroupNormParams& p, const Shape& data, const Shape& gamma) {
  const int64_t pixels = data.product(2, data.ndim());
  return {.count = data[0] * p.num_groups,
          .length = data[1] / p.num_groups * pixels,
          .cycle = p.num_groups,
          .run = gamma[0] > 0 ? data[1] / gamma[0] * pixels : pixels,
          .eps = p.eps};
}
Rows make_rows(const InstanceNormParams& p, const Shape& data, const Shape&) {
  const int64_t pixels = data.product(2, data.ndim());
  return {
      .count = data[0] * data[1], .length = pixels, .cycle = data[1], .run = pixels, .eps = p.eps};
}

// Mean and standard deviation of a row, by all threads of a block; the variance in a second pass
// over what the cache still holds.
template <class T, class Acc = AccOf<T>>
__device__ __forceinline__ void row_stats(const Rows& rows, const T* x, Acc& mean, Acc& std) {
  const Acc n = static_cast<Acc>(rows.length);
  Acc sum = Acc(0);
  for (int64_t i = threadIdx.x; i < rows.length; i += blockDim.x)
    sum += convert<Acc>(x[i * rows.inner]);
  mean = block_sum(sum) / n;
  Acc squares = Acc(0);
  for (int64_t i = threadIdx.x; i < rows.length; i += blockDim.x) {
    const Acc v = convert<Acc>(x[i * rows.inner]) - mean;
    squares += v * v;
  }
  std = static_cast<Acc>(sqrt(static_cast<double>(block_sum(squares) / n) + rows.eps));
}

template <class T>
__global__ void forward(const __grid_constant__ Rows rows, const T* data, const T* gamma,
                        const T* beta, T* out, T* means, T* stds) {
  using Acc = AccOf<T>;
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const T* const x = data + rows.first(r);
    T* const y = out + rows.first(r);
    Acc mean, std;
    row_stats(rows, x, mean, std);
    const Acc scale = Acc(1) / std;
    const int64_t param = rows.first_param(r);
    for (int64_t i = threadIdx.x; i < rows.length; i += blockDim.x) {
      const int64_t k = param + i / rows.run;
      y[i * rows.inner] =
          convert<T>((convert<Acc>(x[i * rows.inner]) - mean) * scale * convert<Acc>(gamma[k]) +
                     convert<Acc>(beta[k]));
    }
    if (means && threadIdx.x == 0) {
      means[r] = convert<T>(mean);
      stds[r] = convert<T>(std);
    }
  }
}

// With g = output_grad * gamma: grad = (g - mean(g) - x_hat * mean(g * x_hat)) / std. Leaves mean
// and 1 / std of every row for the gradients of gamma and beta.
template <class T>
__global__ void backward_data(const __grid_constant__ Rows rows, const T* grads, const T* data,
                              const T* gamma, T* out, AccOf<T>* stats) {
  using Acc = AccOf<T>;
  for (int64_t r = blockIdx.x; r < rows.count; r += gridDim.x) {
    const T *const g = grads + rows.first(r), *const x = data + rows.first(r);
    T* const y = out + rows.first(r);
    const int64_t param = rows.first_param(r);
    Acc mean, std, sum = Acc(0), dot = Acc(0);
    row_stats(rows, x, mean, std);
    const Acc scale = Acc(1) / std;
    for (int64_t i = threadIdx.x; i < rows.length; i += blockDim.x) {
      const Acc v = convert<Acc>(g[i * rows.inner]) * convert<Acc>(gamma[param + i / rows.run]);
      sum += v;
      dot += v * (convert<Acc>(x[i * rows.inner]) - mean) * scale;
    }
    const Acc offset = block_sum(sum) / static_cast<Acc>(rows.length);
    const Acc slope = block_sum(dot) / static_cast<Acc>(rows.length);
    for (int64_t i = threadIdx.x; i < rows.length; i += blockDim.x) {
      const Acc v = convert<Acc>(g[i * rows.inner]) * convert<Acc>(gamma[param + i / rows.run]);
      const Acc x_hat = (convert<Acc>(x[i * rows.inner]) - mean) * scale;
      y[i * rows.inner] = convert<T>((v - offset - x_hat * slope) * scale);
    }
    if (threadIdx.x == 0) {
      stats[2 * r] = mean;
      stats[2 * r + 1] = scale;
    }
  }
}

// Gradients of gamma and beta where every element of a row has its own (LayerNorm over contiguous
// rows): a block's warps read neighbouring columns, each thread a part of the rows.
constexpr int kLines = kThreads / kWarp;

template <class T>
__global__ void backward_columns(const __grid_constant__ Rows rows, const T* grads, const T* data,
                                 const AccOf<T>* stats, T* gamma_grad, T* beta_grad) {
  using Acc = AccOf<T>;
  __shared__ Acc parts[2][kLines][kWarp];
  const int lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  for (int64_t first = blockIdx.x * int64_t{kWarp}; first < rows.length;
       first += gridDim.x * int64_t{kWarp}) {
    const int64_t column = first + lane;
    Acc gamma_sum = Acc(0), beta_sum = Acc(0);
    if (column < rows.length)
      for (int64_t r = line; r < rows.count; r += kLines) {
        const Acc g = convert<Acc>(grads[r * rows.length + column]);
        gamma_sum +=
            g * (convert<Acc>(data[r * rows.length + column]) - stats[2 * r]) * stats[2 * r + 1];
        beta_sum += g;
      }
    __syncthreads();
    parts[0][line][lane] = gamma_sum;
    parts[1][line][lane] = beta_sum;
    __syncthreads();
    if (line == 0 && column < rows.length) {
      for (int k = 1; k < kLines; ++k) {
        gamma_sum += parts[0][k][lane];
        beta_sum += parts[1][k][lane];
      }
      gamma_grad[column] = convert<T>(gamma_sum);
      beta_grad[column] = convert<T>(beta_sum);
    }
  }
}

// The same for runs of elements: one block per parameter.
template <class T>
__global__ void backward_runs(const __grid_constant__ Rows rows, int64_t params, const T* grads,
                              const T* data, const AccOf<T>* stats, T* gamma_grad, T* beta_grad) {
  using Acc = AccOf<T>;
  const int64_t per_row = rows.params_per_row(), all = rows.count / rows.cycle * rows.run;
  for (int64_t p = blockIdx.x; p < params; p += gridDim.x) {
    Acc gamma_sum = Acc(0), beta_sum = Acc(0);
    for (int64_t k = threadIdx.x; k < all; k += blockDim.x) {
      const int64_t r = p / per_row + k / rows.run * rows.cycle;
      const int64_t at = rows.first(r) + (p % per_row * rows.run + k % rows.run) * rows.inner;
      const Acc g = convert<Acc>(grads[at]);
      gamma_sum += g * (convert<Acc>(data[at]) - stats[2 * r]) * stats[2 * r + 1];
      beta_sum += g;
    }
    gamma_sum = block_sum(gamma_sum);
    beta_sum = block_sum(beta_sum);
    if (threadIdx.x == 0) {
      gamma_grad[p] = convert<T>(gamma_sum);
      beta_grad[p] = convert<T>(beta_sum);
    }
  }
}

unsigned threads_for(int64_t length) {
  return static_cast<unsigned>(std::clamp<int64_t>((length / 4 + 31) / 32 * 32, 32, 512));
}

template <class P>
void norm(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const Rows rows = make_rows(p, in[0].shape, in[1].shape);
  if (rows.count == 0 || rows.length == 0) return;
  dispatch_float_elements("LayerNorm", in[0].dtype, [&]<class T>(T) {
    const bool stats = out.size() > 1;
    launch(ctx, forward<T>, blocks_per_task(ctx, rows.count), threads_for(rows.length), rows,
           in[0].as<T>(), in[1].as<T>(), in[2].as<T>(), out[0].as<T>(),
           stats ? out[1].as<T>() : nullptr, stats ? out[2].as<T>() : nullptr);
  });
}

template <class P>
void norm_backward(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const Rows rows = make_rows(p, in[1].shape, in[2].shape);
  const int64_t params = in[2].size();
  if (rows.count == 0 || rows.length == 0) {
    zero_bytes(ctx, out[1].data, out[1].bytes());
    zero_bytes(ctx, out[2].data, out[2].bytes());
    return;
  }
  dispatch_float_elements("LayerNorm", in[1].dtype, [&]<class T>(T) {
    using Acc = AccOf<T>;
    auto* stats = static_cast<Acc*>(ctx.scratch(static_cast<size_t>(2 * rows.count) * sizeof(Acc)));
    launch(ctx, backward_data<T>, blocks_per_task(ctx, rows.count), threads_for(rows.length), rows,
           in[0].as<T>(), in[1].as<T>(), in[2].as<T>(), out[0].as<T>(), stats);
    if (rows.run == 1 && rows.inner == 1 && rows.cycle == 1)
      launch(ctx, backward_columns<T>, blocks_per_task(ctx, (rows.length + kWarp - 1) / kWarp),
             kThreads, rows, in[0].as<T>(), in[1].as<T>(), stats, out[1].as<T>(), out[2].as<T>());
    else
      launch(ctx, backward_runs<T>, blocks_per_task(ctx, params), kThreads, rows, params,
             in[0].as<T>(), in[1].as<T>(), stats, out[1].as<T>(), out[2].as<T>());
  });
}

}  // namespace
}  // namespace cuda

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace cuda;  // NOLINT: this folder's own names
  constexpr DeviceType kCUDA = DeviceType::kCUDA;
  ops.kernel<&norm<LayerNormParams>>("LayerNorm", kCUDA);
  ops.kernel<&norm<GroupNormParams>>("GroupNorm", kCUDA);
  ops.kernel<&norm<InstanceNormParams>>("InstanceNorm", kCUDA);
  ops.kernel<&norm_backward<LayerNormParams>>("_layer_norm_backward", kCUDA);
  ops.kernel<&norm_backward<GroupNormParams>>("_group_norm_backward", kCUDA);
  ops.kernel<&norm_backward<InstanceNormParams>>("_instance_norm_backward", kCUDA);
});

}  // namespace mxlite
