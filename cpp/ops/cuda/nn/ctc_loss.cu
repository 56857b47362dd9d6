// Forward and backward recursion with logarithms in double. A block computes a sequence frame by
// frame, and its threads share the states of a frame. The gradient is computed together with the
// loss.
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/ctc_loss.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

constexpr int64_t kMostBlocks = 256;  // each block has its own tables in scratch memory

struct CtcArgs {
  const void *data, *label, *data_lengths, *label_lengths;
  void *loss, *grad;
  DType dtype, label_dtype, data_lengths_dtype, label_lengths_dtype;
  int64_t length, batch, classes, labels, blank;
  // Tables of block 0; the tables of each further block begin `table` numbers later.
  double *log_prob, *alpha, *beta, *sums;
  int64_t* state_class;
  int64_t max_states() const { return 2 * labels + 1; }
};

__device__ __forceinline__ int64_t integer_at(const void* data, DType dtype, int64_t i) {
  return static_cast<int64_t>(load_any<double>(data, dtype, i));
}
__device__ __forceinline__ int64_t clamped(int64_t v, int64_t most) {
  return v < 0 ? 0 : v > most ? most : v;
}

// log(exp(a) + exp(b) + exp(c)); -inf if all three are -inf.
__device__ __forceinline__ double log_add(double a, double b, double c) {
  const double top = fmax(a, fmax(b, c));
  if (top == -INFINITY) return top;
  return top + log(exp(a - top) + exp(b - top) + exp(c - top));
}

// One sequence, processed by all threads of a block.
struct Sequence {
  int64_t frames, states;
  double *log_prob, *alpha, *beta, *sums;
  int64_t* state_class;
  int64_t blank;

  __device__ double emit(int64_t t, int64_t classes, int64_t s) const {
    return log_prob[t * classes + state_class[s]];
  }
  // Returns whether state s can follow state s - 2, which requires different labels.
  __device__ bool may_skip(int64_t s) const {
    return s >= 2 && s < states && state_class[s] != blank && state_class[s] != state_class[s - 2];
  }
};

__device__ Sequence begin_sequence(const CtcArgs& a, int64_t n) {
  const int64_t most = 2 * a.labels + 1, block = blockIdx.x;
  Sequence q{a.length, 1};
  if (a.data_lengths)
    q.frames = clamped(integer_at(a.data_lengths, a.data_lengths_dtype, n), a.length);
  int64_t count = 0;
  if (a.label_lengths) {
    count = clamped(integer_at(a.label_lengths, a.label_lengths_dtype, n), a.labels);
  } else {
    const int64_t padding = a.blank == 0 ? 0 : -1;
    while (count < a.labels && integer_at(a.label, a.label_dtype, n * a.labels + count) != padding)
      ++count;
  }
  q.states = 2 * count + 1;
  q.log_prob = a.log_prob + block * a.length * a.classes;
  q.alpha = a.alpha + block * a.length * most;
  q.beta = a.beta + block * 2 * most;
  q.sums = a.sums + block * a.classes;
  q.state_class = a.state_class + block * most;
  q.blank = a.blank;
  for (int64_t s = threadIdx.x; s < q.states; s += blockDim.x)
    q.state_class[s] =
        s % 2 == 0
            ? a.blank
            : clamped(integer_at(a.label, a.label_dtype, n * a.labels + s / 2), a.classes - 1);
  __syncthreads();
  return q;
}

// One warp per frame.
template <class C>
__device__ void normalize(const CtcArgs& a, const Sequence& q, int64_t n) {
  const int lane = threadIdx.x % kWarp;
  for (int64_t t = threadIdx.x / kWarp; t < q.frames; t += blockDim.x / kWarp) {
    const int64_t from = (t * a.batch + n) * a.classes;
    double top = -INFINITY, sum = 0;
    for (int64_t k = lane; k < a.classes; k += kWarp)
      top = fmax(top, static_cast<double>(load_as<C>(a.data, a.dtype, from + k)));
    top = warp_max(top);
    for (int64_t k = lane; k < a.classes; k += kWarp)
      sum += exp(static_cast<double>(load_as<C>(a.data, a.dtype, from + k)) - top);
    const double log_sum = top + log(warp_sum(sum));
    for (int64_t k = lane; k < a.classes; k += kWarp)
      q.log_prob[t * a.classes + k] =
          static_cast<double>(load_as<C>(a.data, a.dtype, from + k)) - log_sum;
  }
  __syncthreads();
}

__device__ double run_alpha(const CtcArgs& a, const Sequence& q) {
  for (int64_t t = 0; t < q.frames; ++t) {
    double* const now = q.alpha + t * q.states;
    const double* const before = now - q.states;
    for (int64_t s = threadIdx.x; s < q.states; s += blockDim.x) {
      double reached = s < 2 ? 0 : -INFINITY;
      if (t > 0)
        reached = log_add(before[s], s > 0 ? before[s - 1] : -INFINITY,
                          q.may_skip(s) ? before[s - 2] : -INFINITY);
      now[s] = reached + q.emit(t, a.classes, s);
    }
    __syncthreads();
  }
  const double* const last = q.alpha + (q.frames - 1) * q.states;
  return q.states > 1 ? log_add(last[q.states - 1], last[q.states - 2], -INFINITY) : last[0];
}

template <class C>
__device__ void run_gradient(const CtcArgs& a, const Sequence& q, int64_t n, double likelihood) {
  const int64_t most = 2 * a.labels + 1;
  for (int64_t t = q.frames - 1; t >= 0; --t) {
    // Double buffering: a frame reads the row that the next frame has written.
    double* const now = q.beta + (t % 2) * most;
    const double* const next = q.beta + (1 - t % 2) * most;
    const auto reach = [&](int64_t s) {
      return s < q.states ? next[s] + q.emit(t + 1, a.classes, s) : -INFINITY;
    };
    for (int64_t s = threadIdx.x; s < q.states; s += blockDim.x)
      now[s] = t == q.frames - 1
                   ? (s >= q.states - 2 ? 0 : -INFINITY)
                   : log_add(reach(s), reach(s + 1), q.may_skip(s + 2) ? reach(s + 2) : -INFINITY);
    for (int64_t k = threadIdx.x; k < a.classes; k += blockDim.x) q.sums[k] = 0;
    __syncthreads();
    // One thread adds the states, so that the order of additions is the same in every run.
    if (threadIdx.x == 0)
      for (int64_t s = 0; s < q.states; ++s)
        q.sums[q.state_class[s]] += exp(q.alpha[t * q.states + s] + now[s] - likelihood);
    __syncthreads();
    const int64_t to = (t * a.batch + n) * a.classes;
    for (int64_t k = threadIdx.x; k < a.classes; k += blockDim.x)
      store_as<C>(a.grad, a.dtype, to + k,
                  static_cast<C>(exp(q.log_prob[t * a.classes + k]) - q.sums[k]));
    __syncthreads();
  }
}

template <class C>
__global__ void __launch_bounds__(kThreads) ctc_kernel(const __grid_constant__ CtcArgs a) {
  for (int64_t n = blockIdx.x; n < a.batch; n += gridDim.x) {
    const Sequence q = begin_sequence(a, n);
    double likelihood = q.states > 1 ? -INFINITY : 0;
    if (q.frames > 0) {
      normalize<C>(a, q, n);
      likelihood = run_alpha(a, q);
      // If the labels do not fit into the frames, the loss is infinite; the gradient stays zero.
      if (likelihood > -INFINITY) run_gradient<C>(a, q, n, likelihood);
    }
    if (threadIdx.x == 0) store_as<C>(a.loss, a.dtype, n, static_cast<C>(-likelihood));
    __syncthreads();
  }
}

void ctc_loss(KernelContext& ctx, const CTCLossParams& p, Inputs in, Outputs out) {
  zero_bytes(ctx, out[1].data, out[1].bytes());
  CtcArgs a{};
  a.data = in[0].data;
  a.dtype = in[0].dtype;
  a.length = in[0].shape[0];
  a.batch = in[0].shape[1];
  a.classes = in[0].shape[2];
  a.label = in[1].data;
  a.label_dtype = in[1].dtype;
  a.labels = in[1].shape[1];
  a.blank = p.blank_label == BlankLabel::kLast ? a.classes - 1 : 0;
  size_t next = 2;
  if (p.use_data_lengths) {
    a.data_lengths_dtype = in[next].dtype;
    a.data_lengths = in[next++].data;
  }
  if (p.use_label_lengths) {
    a.label_lengths_dtype = in[next].dtype;
    a.label_lengths = in[next].data;
  }
  a.loss = out[0].data;
  a.grad = out[1].data;
  if (a.batch == 0) return;
  const int64_t blocks = std::min(a.batch, kMostBlocks), states = a.max_states();
  ScratchPlan plan;
  const auto numbers = [&](int64_t each) {
    return plan.add(static_cast<size_t>(blocks * each) * sizeof(double));
  };
  const size_t log_prob = numbers(a.length * a.classes), alpha = numbers(a.length * states);
  const size_t beta = numbers(2 * states), sums = numbers(a.classes), classes = numbers(states);
  void* const block = ctx.scratch(plan.bytes());
  a.log_prob = part<double>(block, log_prob);
  a.alpha = part<double>(block, alpha);
  a.beta = part<double>(block, beta);
  a.sums = part<double>(block, sums);
  a.state_class = part<int64_t>(block, classes);
  launch(ctx, a.dtype == DType::kFloat64 ? ctc_kernel<double> : ctc_kernel<float>,
         static_cast<unsigned>(blocks), kThreads, a);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::ctc_loss>("CTCLoss");
});

}  // namespace mxlite::cuda
