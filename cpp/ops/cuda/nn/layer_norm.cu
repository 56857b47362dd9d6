// LayerNorm, GroupNorm and InstanceNorm use the same computation on rows: normalize each row to
// mean 0 and variance 1, then apply gamma and beta, one pair for each run of elements. A block
// processes a row. If a row of LayerNorm fits into the registers of a warp, a warp processes the
// row and reads it once.
#include <initializer_list>
#include <type_traits>

#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/layer_norm.h"
#include "cpp/ops/nn/normalized_rows.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using Rows = NormalizedRows;

constexpr int kMostThreads = 512;  // the largest block that shares a row

// The threads of a block compute mean and standard deviation of a row. The second pass, for the
// variance, usually finds the row in the cache.
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
__global__ void __launch_bounds__(kMostThreads)
    forward(const __grid_constant__ Rows rows, const T* data, const T* gamma, const T* beta, T* out,
            T* means, T* stds) {
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

// With g = output_grad * gamma: grad = (g - mean(g) - x_hat * mean(g * x_hat)) / std. Stores mean
// and 1 / std of every row for the gradients of gamma and beta.
template <class T>
__global__ void __launch_bounds__(kMostThreads)
    backward_data(const __grid_constant__ Rows rows, const T* grads, const T* data, const T* gamma,
                  T* out, AccOf<T>* stats) {
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

// Elements of a pack. Lane k of a warp holds packs k, k + 32, ... of a row, kFewPacks or kMostPacks
// at most.
template <class T>
constexpr int kVector = static_cast<int>(16 / sizeof(T));
constexpr int kFewPacks = 4, kMostPacks = 8;

// A contiguous row in the registers of a warp, in the type of memory: 16-bit floats take half of
// the registers that float32 would take.
template <class T, int V, int kPacks>
struct WarpRow {
  using Acc = AccOf<T>;
  Pack<T, V> packs[kPacks];

  // Calls fn(pack, index of its first element) for the packs of this lane.
  static __device__ __forceinline__ void for_packs(int64_t length, auto&& fn) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int64_t at = (int64_t{p} * kWarp + threadIdx.x % kWarp) * V;
      if (at < length) fn(p, at);
    }
  }
  __device__ __forceinline__ void load(const T* row, int64_t length) {
    for_packs(length, [&](int p, int64_t at) {
      packs[p] = *reinterpret_cast<const Pack<T, V>*>(row + at);
    });
  }
  __device__ __forceinline__ Acc at(int p, int k) const { return convert<Acc>(packs[p].v[k]); }
  // Returns mean and standard deviation of all elements.
  __device__ __forceinline__ void stats(const Rows& rows, Acc& mean, Acc& std) const {
    const Acc n = static_cast<Acc>(rows.length);
    Acc sum = Acc(0), squares = Acc(0);
    for_packs(rows.length, [&](int p, int64_t) {
#pragma unroll
      for (int k = 0; k < V; ++k) sum += at(p, k);
    });
    mean = warp_sum(sum) / n;
    for_packs(rows.length, [&](int p, int64_t) {
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const Acc v = at(p, k) - mean;
        squares += v * v;
      }
    });
    std = static_cast<Acc>(sqrt(static_cast<double>(warp_sum(squares) / n) + rows.eps));
  }
};

template <class T, int V, int kPacks>
__global__ void __launch_bounds__(kThreads, kPacks == kFewPacks ? 4 : 2)
    normalize_warps(const __grid_constant__ Rows rows, const T* data, const T* gamma, const T* beta,
                    T* out, T* means, T* stds) {
  using Acc = AccOf<T>;
  using Row = WarpRow<T, V, kPacks>;
  const int64_t step = grid_stride() / kWarp;
  for (int64_t r = global_index() / kWarp; r < rows.count; r += step) {
    Row row;
    row.load(data + r * rows.length, rows.length);
    Acc mean, std;
    row.stats(rows, mean, std);
    const Acc inverse = Acc(1) / std;
    Row::for_packs(rows.length, [&](int p, int64_t at) {
      Acc scale[V], shift[V];
      load_pack<T>(gamma, at, scale);
      load_pack<T>(beta, at, shift);
#pragma unroll
      for (int k = 0; k < V; ++k) scale[k] = (row.at(p, k) - mean) * inverse * scale[k] + shift[k];
      store_pack<T>(out + r * rows.length, at, scale);
    });
    if (means && threadIdx.x % kWarp == 0) {
      means[r] = convert<T>(mean);
      stds[r] = convert<T>(std);
    }
  }
}

template <class T, int V, int kPacks>
__global__ void __launch_bounds__(kThreads, 2)
    backward_data_warps(const __grid_constant__ Rows rows, const T* grads, const T* data,
                        const T* gamma, T* out, AccOf<T>* stats) {
  using Acc = AccOf<T>;
  using Row = WarpRow<T, V, kPacks>;
  const int64_t step = grid_stride() / kWarp;
  for (int64_t r = global_index() / kWarp; r < rows.count; r += step) {
    Row x, g;
    x.load(data + r * rows.length, rows.length);
    g.load(grads + r * rows.length, rows.length);
    Acc mean, std, sum = Acc(0), dot = Acc(0);
    x.stats(rows, mean, std);
    const Acc inverse = Acc(1) / std;
    Row::for_packs(rows.length, [&](int p, int64_t at) {
      Acc scale[V];
      load_pack<T>(gamma, at, scale);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const Acc v = g.at(p, k) * scale[k];
        sum += v;
        dot += v * ((x.at(p, k) - mean) * inverse);
      }
    });
    const Acc offset = warp_sum(sum) / static_cast<Acc>(rows.length);
    const Acc slope = warp_sum(dot) / static_cast<Acc>(rows.length);
    Row::for_packs(rows.length, [&](int p, int64_t at) {
      Acc scale[V];
      load_pack<T>(gamma, at, scale);  // loaded again: keeping gamma takes registers
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const Acc x_hat = (x.at(p, k) - mean) * inverse;
        scale[k] = (g.at(p, k) * scale[k] - offset - x_hat * slope) * inverse;
      }
      store_pack<T>(out + r * rows.length, at, scale);
    });
    if (threadIdx.x % kWarp == 0) {
      stats[2 * r] = mean;
      stats[2 * r + 1] = inverse;
    }
  }
}

// Gradients of gamma and beta if every element of a row has a separate pair (LayerNorm over
// contiguous rows). A block sums a part of the rows, V neighboring columns per lane. Another kernel
// adds the partial sums (splits, 2, length).
constexpr int kLines = kThreads / kWarp;

template <class T, int V>
__global__ void backward_columns(const __grid_constant__ Rows rows, int64_t splits, const T* grads,
                                 const T* data, const AccOf<T>* stats, AccOf<T>* sums) {
  using Acc = AccOf<T>;
  __shared__ Acc parts[2][kLines][kWarp];
  const int lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  const int64_t tiles = (rows.length + kWarp * V - 1) / (kWarp * V);
  for (int64_t task = blockIdx.x; task < tiles * splits; task += gridDim.x) {
    const int64_t column = (task % tiles * kWarp + lane) * V, split = task / tiles;
    const int64_t end = rows.count * (split + 1) / splits;
    Acc gamma_sum[V] = {}, beta_sum[V] = {};
    if (column < rows.length)
      for (int64_t r = rows.count * split / splits + line; r < end; r += kLines) {
        Acc g[V], x[V];
        load_pack<T>(grads, r * rows.length + column, g);
        load_pack<T>(data, r * rows.length + column, x);
        const Acc mean = stats[2 * r], scale = stats[2 * r + 1];
#pragma unroll
        for (int k = 0; k < V; ++k) {
          gamma_sum[k] += g[k] * (x[k] - mean) * scale;
          beta_sum[k] += g[k];
        }
      }
#pragma unroll
    for (int k = 0; k < V; ++k) {
      __syncthreads();
      parts[0][line][lane] = gamma_sum[k];
      parts[1][line][lane] = beta_sum[k];
      __syncthreads();
      if (line < 2 && column < rows.length) {
        Acc sum = Acc(0);
        for (int other = 0; other < kLines; ++other) sum += parts[line][other][lane];
        sums[(split * 2 + line) * rows.length + column + k] = sum;
      }
    }
  }
}

// One warp adds the partial sums of one column.
template <class T>
__global__ void join_columns(int64_t length, int64_t splits, const AccOf<T>* sums, T* gamma_grad,
                             T* beta_grad) {
  for (int64_t i = global_index() / kWarp; i < length; i += grid_stride() / kWarp) {
    double gamma_sum = 0, beta_sum = 0;
    for (int64_t s = threadIdx.x % kWarp; s < splits; s += kWarp) {
      gamma_sum += static_cast<double>(sums[s * 2 * length + i]);
      beta_sum += static_cast<double>(sums[(s * 2 + 1) * length + i]);
    }
    gamma_sum = warp_sum(gamma_sum);
    beta_sum = warp_sum(beta_sum);
    if (threadIdx.x % kWarp == 0) {
      gamma_grad[i] = convert<T>(static_cast<AccOf<T>>(gamma_sum));
      beta_grad[i] = convert<T>(static_cast<AccOf<T>>(beta_sum));
    }
  }
}

// Gradients of gamma and beta if a run of elements shares a pair: one block per pair.
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
  return static_cast<unsigned>(std::clamp<int64_t>((length / 4 + 31) / 32 * 32, 32, kMostThreads));
}

// Returns whether rows are contiguous and every element of a row has a separate gamma.
bool is_plain(const Rows& rows) { return rows.run == 1 && rows.inner == 1 && rows.cycle == 1; }

bool packs_fit(const Rows& rows, int vector, std::initializer_list<const void*> pointers) {
  for (const void* p : pointers)
    if (!is_aligned(p)) return false;
  return rows.length % vector == 0;
}

// Calls fn(integral_constant<int, V>) with the pack size V: kVector<T>, or 1 if rows are not
// packed.
template <class T, class F>
void dispatch_packs(const Rows& rows, std::initializer_list<const void*> pointers, F&& fn) {
  if (packs_fit(rows, kVector<T>, pointers))
    fn(std::integral_constant<int, kVector<T>>{});
  else
    fn(std::integral_constant<int, 1>{});
}

// Calls fn(integral_constant<int, kPacks>) if a warp can hold a row in packs of V elements. Returns
// whether it can.
template <int V>
bool in_warps(const Rows& rows, auto&& fn) {
  constexpr int64_t kStep = int64_t{kWarp} * V;
  if (!is_plain(rows) || rows.length > kMostPacks * kStep) return false;
  if (rows.length <= kFewPacks * kStep)
    fn(std::integral_constant<int, kFewPacks>{});
  else
    fn(std::integral_constant<int, kMostPacks>{});
  return true;
}

template <class P>
void norm(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const Rows rows = make_rows(p, in[0].shape, in[1].shape);
  if (rows.count == 0 || rows.length == 0) return;
  dispatch_float_elements("LayerNorm", in[0].dtype, [&]<class T>(T) {
    T* const means = out.size() > 1 ? out[1].as<T>() : nullptr;
    T* const stds = out.size() > 1 ? out[2].as<T>() : nullptr;
    dispatch_packs<T>(rows, {in[0].data, in[1].data, in[2].data, out[0].data}, [&](auto pack) {
      constexpr int V = decltype(pack)::value;
      const bool done = in_warps<V>(rows, [&](auto count) {
        launch(ctx, normalize_warps<T, V, decltype(count)::value>,
               blocks_for(rows.count * kWarp, ctx), kThreads, rows, in[0].as<T>(), in[1].as<T>(),
               in[2].as<T>(), out[0].as<T>(), means, stds);
      });
      if (!done)
        launch(ctx, forward<T>, blocks_per_task(ctx, rows.count), threads_for(rows.length), rows,
               in[0].as<T>(), in[1].as<T>(), in[2].as<T>(), out[0].as<T>(), means, stds);
    });
  });
}

// Returns the number of parts into which the rows are divided for the gradients of gamma and beta.
int64_t splits_of(const Rows& rows, int vector) {
  constexpr int64_t kBlocksWanted = 1024, kLeastRows = 4 * kLines;
  const int64_t tiles = (rows.length + kWarp * vector - 1) / (kWarp * vector);
  return std::clamp<int64_t>(std::min(kBlocksWanted / tiles, rows.count / kLeastRows), 1,
                             kBlocksWanted);
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
    const T *const grads = in[0].as<T>(), *const data = in[1].as<T>();
    dispatch_packs<T>(rows, {in[0].data, in[1].data, in[2].data, out[0].data}, [&](auto pack) {
      constexpr int V = decltype(pack)::value;
      const bool plain = is_plain(rows);
      const int64_t splits = plain ? splits_of(rows, V) : 0;
      const int64_t count = 2 * rows.count + splits * 2 * rows.length;
      auto* const stats = static_cast<Acc*>(ctx.scratch(static_cast<size_t>(count) * sizeof(Acc)));
      Acc* const sums = stats + 2 * rows.count;
      const bool done = in_warps<V>(rows, [&](auto packs) {
        launch(ctx, backward_data_warps<T, V, decltype(packs)::value>,
               blocks_for(rows.count * kWarp, ctx), kThreads, rows, grads, data, in[2].as<T>(),
               out[0].as<T>(), stats);
      });
      if (!done)
        launch(ctx, backward_data<T>, blocks_per_task(ctx, rows.count), threads_for(rows.length),
               rows, grads, data, in[2].as<T>(), out[0].as<T>(), stats);
      if (!plain) {
        launch(ctx, backward_runs<T>, blocks_per_task(ctx, params), kThreads, rows, params, grads,
               data, stats, out[1].as<T>(), out[2].as<T>());
        return;
      }
      const int64_t tiles = (rows.length + kWarp * V - 1) / (kWarp * V);
      launch(ctx, backward_columns<T, V>, blocks_per_task(ctx, tiles * splits), kThreads, rows,
             splits, grads, data, stats, sums);
      launch_items(ctx, join_columns<T>, rows.length * kWarp, rows.length, splits, sums,
                   out[1].as<T>(), out[2].as<T>());
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&norm<LayerNormParams>>("LayerNorm");
  ops.cuda_kernel<&norm<GroupNormParams>>("GroupNorm");
  ops.cuda_kernel<&norm<InstanceNormParams>>("InstanceNorm");
  ops.cuda_kernel<&norm_backward<LayerNormParams>>("_layer_norm_backward");
  ops.cuda_kernel<&norm_backward<GroupNormParams>>("_group_norm_backward");
  ops.cuda_kernel<&norm_backward<InstanceNormParams>>("_instance_norm_backward");
});

}  // namespace mxlite::cuda
