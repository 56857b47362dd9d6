// Launch 1: many blocks compute partial sums of each channel; the last of these blocks computes the
// mean and scale of the channel. Launch 2: the elements are computed. One of the channel's elements
// is subtracted before summing, to avoid cancellation in the variance if the mean is large. Sums
// from a convolution are float32 sums without this shift: they give the variance an error of about
// mean^2 * 1e-6, which matters in nearly constant channels with a large mean.
#include "cpp/ops/cuda/nn/batch_norm_gate.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {
namespace {

// Enough blocks to occupy all multiprocessors even if there are few channels.
constexpr int64_t kBlocksWanted = 1024, kMaxSplits = 1024;
constexpr int64_t kLeastPerSplit = 4096;  // number of elements of a channel
constexpr int kMostVector = 8;

// Returns the number of threads that cover the channels of a channels-last array with `vector`
// channels each.
int lanes_of(const ChannelBlocks& b, int vector) {
  int lanes = kWarp;
  while (lanes > 1 && int64_t{lanes / 2} * vector >= b.channels) lanes /= 2;
  return lanes;
}
// Returns how many blocks cover the channels of a channels-last array.
int64_t tiles_of(const ChannelBlocks& b, int vector) {
  const int64_t channels = int64_t{lanes_of(b, vector)} * vector;
  return (b.channels + channels - 1) / channels;
}

// Returns the number of blocks that share the elements of a channel; more if packs are wider.
int64_t splits_of(const ChannelBlocks& b, int vector) {
  const int64_t per_channel = b.outer * b.inner;
  const int64_t columns = b.inner == 1 ? tiles_of(b, vector) : b.channels;
  const int64_t least = b.inner == 1 ? 128 : kLeastPerSplit;
  return std::clamp<int64_t>(
      std::min(kBlocksWanted / std::max<int64_t>(columns, 1), per_channel / least), 1, kMaxSplits);
}

// Scratch arrays: for each share of a channel's elements the sums of two functions of the elements,
// and for each channel the coefficients that the last pass uses.
template <class Acc>
struct Work {
  Acc* sums;                     // (splits, 2, channels)
  Acc *center, *scale, *offset;  // per channel; forward: (x - center) * scale + offset
  Acc* slope;                    // backward
  int64_t splits;                // number of shares
};
template <class Acc>
Work<Acc> make_work(const ChannelBlocks& b, int vector, void* scratch) {
  Acc* at = static_cast<Acc*>(scratch);
  const int64_t splits = splits_of(b, vector), c = b.channels;
  Acc* rest = at + splits * 2 * c;
  return {at, rest, rest + c, rest + 2 * c, rest + 3 * c, splits};
}

template <class T>
constexpr int kVector = sizeof(T) == 2 ? kMostVector : 16 / sizeof(T);

// A warp adds the sums of all shares of a channel. Every thread of the warp gets the result.
template <class Acc>
__device__ __forceinline__ void total(const Work<Acc>& work, int64_t channels, int64_t c,
                                      double& first, double& second) {
  first = second = 0;
  for (int64_t s = threadIdx.x % kWarp; s < work.splits; s += kWarp) {
    first += static_cast<double>(work.sums[s * 2 * channels + c]);
    second += static_cast<double>(work.sums[(s * 2 + 1) * channels + c]);
  }
  first = warp_sum(first);
  second = warp_sum(second);
}

// Computes the statistics and coefficients of a channel from its sums; run by a warp.
template <class T>
__device__ void finish_channel(const BatchNormCall& call, const Work<AccOf<T>>& work, int64_t c) {
  using Acc = AccOf<T>;
  const ChannelBlocks& b = call.blocks;
  const double count = static_cast<double>(b.outer * b.inner);
  const DType stats = call.stats_dtype;
  double first = 0, second = 0;
  const bool of_batch = call.batch_stats && count > 0 && !call.known_mean;
  if (of_batch && call.known_sums) {
    first = static_cast<double>(call.known_sums[c]);
    second = static_cast<double>(call.known_sums[b.channels + c]);
  } else if (of_batch) {
    total(work, b.channels, c, first, second);
  }
  if (threadIdx.x % kWarp != 0) return;
  const double gamma =
      call.fix_gamma ? 1.0 : static_cast<double>(load_as<Acc>(call.gamma, stats, c));
  work.offset[c] = load_as<Acc>(call.beta, stats, c);
  if (call.known_mean) {
    work.center[c] = load_as<Acc>(call.known_mean, stats, c);
    work.scale[c] = static_cast<Acc>(gamma * load_as<Acc>(call.known_inv_std, stats, c));
    return;
  }
  double mean = load_as<Acc>(call.running_mean, stats, c);
  double var = load_as<Acc>(call.running_var, stats, c);
  if (of_batch) {
    const double shift = first / count, m = call.momentum;
    const double old_mean = mean, old_var = var;
    mean = shift;
    if (!call.known_sums)  // this element was subtracted before summing
      mean += static_cast<double>(convert<Acc>(static_cast<const T*>(call.data)[c * b.inner]));
    const double spread = second / count - shift * shift;
    var = spread > 0 ? spread : spread == spread ? 0 : spread;
    store_as<Acc>(call.running_mean, stats, c, static_cast<Acc>(old_mean * m + mean * (1 - m)));
    store_as<Acc>(call.running_var, stats, c, static_cast<Acc>(old_var * m + var * (1 - m)));
  }
  const double inv_std = 1 / sqrt(var + call.eps);
  store_as<Acc>(call.mean, stats, c, static_cast<Acc>(mean));
  store_as<Acc>(call.inv_std, stats, c, static_cast<Acc>(inv_std));
  if (call.var) store_as<Acc>(call.var, stats, c, static_cast<Acc>(var));
  work.center[c] = static_cast<Acc>(mean);
  work.scale[c] = static_cast<Acc>(gamma * inv_std);
}

template <class T>
__device__ void finish_channel(const BatchNormGradCall& call, const Work<AccOf<T>>& work,
                               int64_t c) {
  using Acc = AccOf<T>;
  const ChannelBlocks& b = call.blocks;
  const double count = static_cast<double>(b.outer * b.inner);
  const DType stats = call.stats_dtype;
  double first, second;
  total(work, b.channels, c, first, second);
  if (threadIdx.x % kWarp != 0) return;
  const double inv_std = static_cast<double>(load_as<Acc>(call.inv_std, stats, c));
  const double gamma =
      call.fix_gamma ? 1.0 : static_cast<double>(load_as<Acc>(call.gamma, stats, c));
  store_as<Acc>(call.gamma_grad, stats, c,
                call.fix_gamma ? Acc(0) : static_cast<Acc>(second * inv_std));
  store_as<Acc>(call.beta_grad, stats, c, static_cast<Acc>(first));
  const bool through = call.batch_stats && count > 0;
  work.center[c] = load_as<Acc>(call.mean, stats, c);
  work.scale[c] = static_cast<Acc>(gamma * inv_std);
  work.offset[c] = through ? static_cast<Acc>(first / count) : Acc(0);
  work.slope[c] = through ? static_cast<Acc>(second * inv_std * inv_std / count) : Acc(0);
}

// The last of the blocks that have summed the same channels finishes these channels.
template <class T, class Call>
struct Finish {
  Call call;
  Work<AccOf<T>> work;
  unsigned* arrived;  // for each group of channels; null: another launch finishes the channels

  // Called by all threads of a block when they have stored sums for the channels [begin, end). The
  // sums cover only the block's share of the elements of each channel.
  __device__ __forceinline__ void arrive(int64_t group, int64_t begin, int64_t end) const {
    if (!arrived || !is_last_block(arrived + group, static_cast<unsigned>(work.splits))) return;
    for (int64_t c = begin + threadIdx.x / kWarp; c < end; c += kThreads / kWarp)
      finish_channel<T>(call, work, c);
  }
};

template <class T, class Call>
__global__ void finish_channels(const __grid_constant__ Call call,
                                const __grid_constant__ Work<AccOf<T>> work) {
  for (int64_t c = global_index() / kWarp; c < call.blocks.channels; c += grid_stride() / kWarp)
    finish_channel<T>(call, work, c);
}

// Sums channels whose elements are contiguous. Each block sums one of the `splits` shares of a
// channel.
template <class T, bool backward, int V, class Call>
__global__ void __launch_bounds__(kThreads, 4)
    sum_planes(ChannelBlocks b, const __grid_constant__ Terms<T, backward> terms,
               const __grid_constant__ Finish<T, Call> finish) {
  const Work<AccOf<T>>& work = finish.work;
  using Acc = AccOf<T>;
  const int64_t packs = b.inner / V, all = b.outer * packs;
  for (int64_t task = blockIdx.x; task < b.channels * work.splits; task += gridDim.x) {
    const int64_t c = task % b.channels, split = task / b.channels;
    const int64_t begin = all * split / work.splits, end = all * (split + 1) / work.splits;
    Acc middle[V], scale[V], shift[V], first[V] = {}, second[V] = {};
    middle[0] = terms.center(c);
    scale[0] = terms.gate.scale(c);
    shift[0] = terms.gate.shift(c);
#pragma unroll
    for (int k = 1; k < V; ++k) {
      middle[k] = middle[0];
      scale[k] = scale[0];
      shift[k] = shift[0];
    }
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      const int64_t o = i / packs;
      const int64_t at = (o * b.channels + c) * b.inner + (i - o * packs) * V;
      terms.add(at, terms.template load<V>(at), middle, scale, shift, first, second);
    }
#pragma unroll
    for (int k = 1; k < V; ++k) {
      first[0] += first[k];
      second[0] += second[k];
    }
    first[0] = block_sum(first[0]);
    second[0] = block_sum(second[0]);
    if (threadIdx.x == 0) {
      work.sums[(split * 2) * b.channels + c] = first[0];
      work.sums[(split * 2 + 1) * b.channels + c] = second[0];
    }
    finish.arrive(c, c, c + 1);
  }
}

// For channels-last arrays: `lanes` neighboring threads each read V channels of a row, and other
// threads of the block read other rows.
template <class T, bool backward, int V, class Call>
__global__ void __launch_bounds__(kThreads, !backward          ? 4
                                            : V == kMostVector ? 2
                                                               : 3)
    sum_columns(ChannelBlocks b, const __grid_constant__ Terms<T, backward> terms,
                const __grid_constant__ Finish<T, Call> finish, int lanes) {
  const Work<AccOf<T>>& work = finish.work;
  using Acc = AccOf<T>;
  __shared__ Acc parts[2][kThreads];
  const int lane = threadIdx.x % lanes, line = threadIdx.x / lanes, lines = kThreads / lanes;
  const int64_t tiles = (b.channels + lanes * V - 1) / (lanes * V);
  for (int64_t task = blockIdx.x; task < tiles * work.splits; task += gridDim.x) {
    const int64_t tile = task % tiles, split = task / tiles;
    const int64_t c0 = (tile * lanes + lane) * V;
    const int64_t begin = b.outer * split / work.splits, end = b.outer * (split + 1) / work.splits;
    const bool inside = c0 < b.channels;
    Acc middle[V] = {}, scale[V] = {}, shift[V] = {}, first[V] = {}, second[V] = {};
    if (inside) {
#pragma unroll
      for (int k = 0; k < V; ++k) {
        middle[k] = terms.center(c0 + k);
        scale[k] = terms.gate.scale(c0 + k);
        shift[k] = terms.gate.shift(c0 + k);
      }
      // Several rows are loaded before the first is added, to have enough bytes in flight.
      constexpr int kAhead = backward ? 2 : 4;
      int64_t row = begin + line;
      for (; row + (kAhead - 1) * lines < end; row += kAhead * lines) {
        typename Terms<T, backward>::template Loaded<V> loaded[kAhead];
#pragma unroll
        for (int r = 0; r < kAhead; ++r)
          loaded[r] = terms.template load<V>((row + r * lines) * b.channels + c0);
#pragma unroll
        for (int r = 0; r < kAhead; ++r)
          terms.add((row + r * lines) * b.channels + c0, loaded[r], middle, scale, shift, first,
                    second);
      }
      for (; row < end; row += lines)
        terms.add(row * b.channels + c0, terms.template load<V>(row * b.channels + c0), middle,
                  scale, shift, first, second);
    }
#pragma unroll
    for (int k = 0; k < V; ++k) {
      __syncthreads();
      parts[0][threadIdx.x] = first[k];
      parts[1][threadIdx.x] = second[k];
      __syncthreads();
      for (int half = lines / 2; half > 0; half /= 2) {
        if (line < half) {
          parts[0][threadIdx.x] += parts[0][threadIdx.x + half * lanes];
          parts[1][threadIdx.x] += parts[1][threadIdx.x + half * lanes];
        }
        __syncthreads();
      }
      if (line == 0 && inside) {
        work.sums[(split * 2) * b.channels + c0 + k] = parts[0][lane];
        work.sums[(split * 2 + 1) * b.channels + c0 + k] = parts[1][lane];
      }
    }
    const int64_t first_channel = tile * lanes * V, next = first_channel + lanes * V;
    finish.arrive(tile, first_channel, next < b.channels ? next : b.channels);
  }
}

// The last forward pass: the function of an element, and the coefficients of its channel, which a
// thread keeps in registers.
template <class T>
struct ForwardPass {
  using Acc = AccOf<T>;
  struct Numbers {
    Acc center, scale, offset;
  };
  BatchNormCall call;
  Work<Acc> work;

  __device__ __forceinline__ Numbers numbers(int64_t c) const {
    return {work.center[c], work.scale[c], work.offset[c]};
  }
  // numbers_of(k) returns the coefficients for element k of the pack.
  template <int V, class F>
  __device__ __forceinline__ void apply(int64_t at, F&& numbers_of) const {
    Acc x[V], other[V] = {};
    load_pack<T>(call.data, at, x);
    if (call.addend) load_pack<T>(call.addend, at, other);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Numbers& of = numbers_of(k);
      const Acc v = (x[k] - of.center) * of.scale + of.offset + other[k];
      x[k] = call.relu && v < Acc(0) ? Acc(0) : v;  // keeps NaN
    }
    store_pack<T>(call.output, at, x);
    if constexpr (V == 8) {
      if (!call.relu_bits) return;
      unsigned passed = 0;
#pragma unroll
      for (int k = 0; k < V; ++k)
        passed |= static_cast<unsigned>(convert<Acc>(convert<T>(x[k])) > Acc(0)) << k;
      call.relu_bits[at / 8] = static_cast<uint8_t>(passed);
    }
  }
};

// Computes the relu bits if elements cannot be processed in packs of 8.
template <class T>
__global__ void bits_of_positive(int64_t bytes, int64_t n, const T* y, uint8_t* bits) {
  for (int64_t i = global_index(); i < bytes; i += grid_stride()) {
    unsigned passed = 0;
    for (int k = 0; k < 8 && 8 * i + k < n; ++k)
      passed |= static_cast<unsigned>(convert<AccOf<T>>(y[8 * i + k]) > AccOf<T>(0)) << k;
    bits[i] = static_cast<uint8_t>(passed);
  }
}

template <class T>
struct BackwardPass {
  using Acc = AccOf<T>;
  struct Numbers {
    Acc center, scale, offset, slope, shift;
  };
  BatchNormGradCall call;
  Work<Acc> work;
  ReluGate<T> gate;

  __device__ __forceinline__ Numbers numbers(int64_t c) const {
    return {work.center[c], work.scale[c], work.offset[c], work.slope[c], gate.shift(c)};
  }
  template <int V, class F>
  __device__ __forceinline__ void apply(int64_t at, F&& numbers_of) const {
    Acc x[V], g[V], y[V] = {};
    load_pack<T>(call.data, at, x);
    load_pack<T>(call.output_grad, at, g);
    gate.load(at, y);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Numbers& of = numbers_of(k);
      const Acc v = x[k] - of.center;
      g[k] = gate.passed(g[k], y[k], v, of.scale, of.shift);
      x[k] = of.scale * (g[k] - of.offset - v * of.slope);
    }
    store_pack<T>(call.data_grad, at, x);
  }
};

// `team` neighboring threads process a plane: the elements of one channel of one image.
template <class Pass, int V>
__global__ void apply_planes(ChannelBlocks b, const __grid_constant__ Pass pass, int team) {
  const int64_t packs = b.inner / V, planes = b.outer * b.channels;
  const int64_t first = global_index() / team, step = grid_stride() / team;
  for (int64_t plane = first; plane < planes; plane += step) {
    const typename Pass::Numbers numbers = pass.numbers(plane % b.channels);
    for (int64_t i = threadIdx.x % team; i < packs; i += team)
      pass.template apply<V>(plane * b.inner + i * V, [&](int) { return numbers; });
  }
}

// For channels-last arrays: a thread processes V channels of every `lines`-th row of the share of
// its block.
template <class Pass, int V>
__global__ void apply_columns(ChannelBlocks b, const __grid_constant__ Pass pass, int lanes,
                              int64_t tiles, int64_t splits) {
  const int lane = threadIdx.x % lanes, line = threadIdx.x / lanes, lines = kThreads / lanes;
  for (int64_t task = blockIdx.x; task < tiles * splits; task += gridDim.x) {
    const int64_t c0 = (task % tiles * lanes + lane) * V, split = task / tiles;
    if (c0 >= b.channels) continue;
    typename Pass::Numbers numbers[V];
#pragma unroll
    for (int k = 0; k < V; ++k) numbers[k] = pass.numbers(c0 + k);
    const int64_t end = b.outer * (split + 1) / splits;
    for (int64_t row = b.outer * split / splits + line; row < end; row += lines)
      pass.template apply<V>(
          row * b.channels + c0, [&](int k) -> const auto& { return numbers[k]; });
  }
}

template <int V, class Pass>
void run_pass(KernelContext& ctx, const ChannelBlocks& b, const Pass& pass) {
  if (b.outer * b.channels * b.inner == 0) return;
  if (b.inner > 1) {
    const int team = b.inner / V >= kThreads ? kThreads : kWarp;
    launch(ctx, apply_planes<Pass, V>, blocks_for(b.outer * b.channels * team, ctx), kThreads, b,
           pass, team);
    return;
  }
  constexpr int64_t kLeastRows = 4;  // fewer rows per thread do not justify loading coefficients
  const int lanes = lanes_of(b, V);
  const int64_t tiles = tiles_of(b, V), rows = b.outer / (kThreads / lanes * kLeastRows);
  const int64_t blocks = blocks_per_task(ctx, int64_t{1} << 32);
  const int64_t splits = std::clamp<int64_t>(blocks / tiles, 1, std::max<int64_t>(rows, 1));
  launch(ctx, apply_columns<Pass, V>, blocks_per_task(ctx, tiles * splits), kThreads, b, pass,
         lanes, tiles, splits);
}

bool aligned(std::initializer_list<const void*> pointers) {
  for (const void* p : pointers)
    if (!is_aligned(p)) return false;
  return true;
}

// Computes the sums, and from the sums the statistics and coefficients of each channel.
template <class T, bool backward, int V, class Call>
void run_sums(KernelContext& ctx, const Call& call, const Terms<T, backward>& terms,
              const Work<AccOf<T>>& work) {
  const ChannelBlocks& b = call.blocks;
  const int64_t groups = b.inner > 1 ? b.channels : tiles_of(b, V);
  const Finish<T, Call> finish{call, work, arrival_counters(ctx, groups)};
  const unsigned blocks = blocks_per_task(ctx, groups * work.splits);
  if (b.inner > 1)
    launch(ctx, sum_planes<T, backward, V, Call>, blocks, kThreads, b, terms, finish);
  else
    launch(ctx, sum_columns<T, backward, V, Call>, blocks, kThreads, b, terms, finish,
           lanes_of(b, V));
  if (!finish.arrived) launch_items(ctx, finish_channels<T, Call>, b.channels * kWarp, call, work);
}

template <class T, int V>
void run_forward(KernelContext& ctx, const BatchNormCall& call, void* scratch) {
  const ChannelBlocks& b = call.blocks;
  const auto work = make_work<AccOf<T>>(b, V, scratch);
  const int64_t n = b.outer * b.channels * b.inner;
  if (call.batch_stats && n > 0 && !call.known_sums) {
    const Terms<T, false> terms{
        static_cast<const T*>(call.data), nullptr, nullptr, call.stats_dtype, b.inner, {}};
    run_sums<T, false, V>(ctx, call, terms, work);
  } else {
    launch_items(ctx, finish_channels<T, BatchNormCall>, b.channels * kWarp, call, work);
  }
  const ForwardPass<T> pass{call, work};
  if (!call.relu_bits) return run_pass<V>(ctx, b, pass);
  if (V > 1 && (b.inner == 1 ? b.channels : b.inner) % 8 == 0) return run_pass<8>(ctx, b, pass);
  run_pass<V>(ctx, b, pass);
  launch_items(ctx, bits_of_positive<T>, (n + 7) / 8, (n + 7) / 8, n,
               static_cast<const T*>(call.output), call.relu_bits);
}

template <class T, int V>
void run_backward(KernelContext& ctx, const BatchNormGradCall& call, void* scratch) {
  const ChannelBlocks& b = call.blocks;
  const auto work = make_work<AccOf<T>>(b, V, scratch);
  const Terms<T, true> terms{static_cast<const T*>(call.data),
                             static_cast<const T*>(call.output_grad),
                             call.mean,
                             call.stats_dtype,
                             b.inner,
                             make_gate<T>(call),
                             static_cast<const T*>(call.other_grad),
                             static_cast<T*>(call.added_grad)};
  run_sums<T, true, V>(ctx, call, terms, work);
  BackwardPass<T> pass{call, work, make_gate<T>(call)};
  if (call.added_grad) {  // by now, the array contains the gradients that the gate passed
    pass.call.output_grad = call.added_grad;
    pass.gate = {};
  }
  run_pass<V>(ctx, b, pass);
}

template <class T>
bool vectors_fit(const ChannelBlocks& b) {
  return (b.inner == 1 ? b.channels : b.inner) % kVector<T> == 0;
}

}  // namespace

size_t batch_norm_scratch_bytes(const ChannelBlocks& b) {
  return static_cast<size_t>((splits_of(b, kMostVector) * 2 + 4) * b.channels) * sizeof(double);
}

void batch_norm_forward(KernelContext& ctx, const BatchNormCall& call, void* scratch) {
  if (call.blocks.channels == 0) return;
  dispatch_float_elements("BatchNorm", call.dtype, [&]<class T>(T) {
    if (vectors_fit<T>(call.blocks) && aligned({call.data, call.addend, call.output}))
      run_forward<T, kVector<T>>(ctx, call, scratch);
    else
      run_forward<T, 1>(ctx, call, scratch);
  });
}

void batch_norm_backward(KernelContext& ctx, const BatchNormGradCall& call, void* scratch) {
  if (call.blocks.channels == 0) return;
  dispatch_float_elements("BatchNorm", call.dtype, [&]<class T>(T) {
    if (vectors_fit<T>(call.blocks) && aligned({call.data, call.output_grad, call.other_grad,
                                                call.data_grad, call.relu_output, call.added_grad}))
      run_backward<T, kVector<T>>(ctx, call, scratch);
    else
      run_backward<T, 1>(ctx, call, scratch);
  });
}

}  // namespace mxlite::cuda
