// Dot-product attention uses cuDNN if cuDNN supports the call (fused_attention.h). Otherwise it
// uses matrix products, with scores in scratch memory, in float32 for 16-bit floats. Heads that
// share a key head are rows of one product (dot_product_attention_gradient.cc).
#include <cmath>

#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/matrix/gemm.h"
#include "cpp/ops/cuda/nn/fused_attention.h"
#include "cpp/ops/cuda/random.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/nn/dot_product_attention.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

// Describes the rows of scores to kernels, by value. Row r is (batch, head, query).
struct ScoreRows {
  int64_t rows = 0, heads = 0, q_length = 0, k_length = 0;
  bool causal = false;
  const void* mask = nullptr;
  DType mask_dtype = DType::kFloat32;
  int64_t mask_strides[4] = {};
  const void* length = nullptr;
  bool length_is_64 = false;
  int64_t length_step = 1;
  float dropout = 0;

  __device__ int64_t attended(int64_t row) const {
    const int64_t query = row % q_length, b = row / (heads * q_length);
    int64_t count = k_length;
    if (length)
      count = length_is_64 ? static_cast<const int64_t*>(length)[b * length_step]
                           : int64_t{static_cast<const int32_t*>(length)[b * length_step]};
    if (count > k_length) count = k_length;
    const int64_t last = query + 1 + k_length - q_length;
    if (causal && last < count) count = last;
    return count > 0 ? count : 0;
  }
  template <class T>
  __device__ T masked(int64_t row, int64_t key, T score) const {
    if (!mask) return score;
    const int64_t at = row / (heads * q_length) * mask_strides[0] +
                       row / q_length % heads * mask_strides[1] + row % q_length * mask_strides[2] +
                       key * mask_strides[3];
    return score + load_as<T>(mask, mask_dtype, at);
  }
  template <class T>
  __device__ T factor(const RandomState& state, int64_t row, int64_t key) const {
    if (dropout == 0) return T(1);
    return static_cast<T>(
        attention_dropout::factor(attention_dropout::bits(state, row, key), dropout));
  }
};

// Replaces scores by softmax weights after dropout; one block per row.
template <class T>
__global__ void make_weights(const __grid_constant__ ScoreRows s, DeviceRandom random, T* scores,
                             T* log_sum) {
  const RandomState state = random.load();
  const T lowest = static_cast<T>(kMaskedScore);
  for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
    T* const values = scores + row * s.k_length;
    const int64_t count = s.attended(row);
    T largest = lowest;
    for (int64_t k = threadIdx.x; k < count; k += blockDim.x) {
      const T v = s.masked(row, k, values[k]);
      values[k] = v;
      if (v > largest) largest = v;
    }
    largest = block_max(largest, lowest);
    T sum = 0;
    for (int64_t k = threadIdx.x; k < s.k_length; k += blockDim.x) {
      const T e = k >= count || values[k] <= lowest ? T(0) : exp(values[k] - largest);
      values[k] = e;
      sum += e;
    }
    sum = block_sum(sum);
    const T share = sum == 0 ? T(0) : 1 / sum;
    for (int64_t k = threadIdx.x; k < s.k_length; k += blockDim.x)
      values[k] *= share * s.factor<T>(state, row, k);
    if (threadIdx.x == 0) log_sum[row] = sum == 0 ? T(INFINITY) : largest + log(sum);
  }
}

// Replaces scores by softmax weights after dropout, and the products of the output's gradient and
// the values by the gradients of the scores.
template <class T>
__global__ void make_score_grads(const __grid_constant__ ScoreRows s, const int64_t* random_state,
                                 int64_t state_step, const T* log_sum, T* scores, T* grads) {
  const RandomState state{static_cast<uint64_t>(random_state[0]),
                          static_cast<uint64_t>(random_state[state_step])};
  for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
    T* const values = scores + row * s.k_length;
    T* const dy = grads + row * s.k_length;
    const int64_t count = s.attended(row);
    T sum = 0;
    for (int64_t k = threadIdx.x; k < s.k_length; k += blockDim.x) {
      const T v = k < count ? s.masked(row, k, values[k]) : static_cast<T>(kMaskedScore);
      const T weight = v <= static_cast<T>(kMaskedScore) ? T(0) : exp(v - log_sum[row]);
      values[k] = weight;
      dy[k] *= s.factor<T>(state, row, k);
      sum += weight * dy[k];
    }
    sum = block_sum(sum);
    for (int64_t k = threadIdx.x; k < s.k_length; k += blockDim.x) {
      dy[k] = values[k] * (dy[k] - sum);
      values[k] *= s.factor<T>(state, row, k);
    }
  }
}

__global__ void write_state(DeviceRandom random, int64_t* to) {
  const RandomState state = random.load();
  to[0] = static_cast<int64_t>(state.seed);
  to[1] = static_cast<int64_t>(state.offset);
}

template <class T>
__global__ void fill_with(int64_t n, T value, T* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) to[i] = value;
}

template <class T>
__global__ void write_factors(int64_t n, int64_t keys, const int64_t* random_state,
                              int64_t state_step, float p, T* to) {
  const RandomState state{static_cast<uint64_t>(random_state[0]),
                          static_cast<uint64_t>(random_state[state_step])};
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to[i] = convert<T>(
        attention_dropout::factor(attention_dropout::bits(state, i / keys, i % keys), p));
}

// One call: sizes of the matrix products, and arrays converted to the compute type.
template <class T>
class Attention {
 public:
  Attention(KernelContext& ctx, const AttentionParams& p, Inputs in, size_t first, size_t optional)
      : ctx_(ctx), scale_(p.scale_of(in[first].shape[3])) {
    const Shape &q = in[first].shape, &k = in[first + 1].shape;
    matrices_ = k[0] * k[1];
    rows_ = q[1] / k[1] * q[2];
    keys_ = k[2];
    rows.rows = q[0] * q[1] * q[2];
    rows.heads = q[1];
    rows.q_length = q[2];
    rows.k_length = keys_;
    rows.causal = p.causal;
    if (p.use_mask) {
      const TensorRef& mask = in[optional];
      rows.mask = mask.data;
      rows.mask_dtype = mask.dtype;
      const int lead = 4 - mask.shape.ndim();
      for (int i = 0; i < mask.shape.ndim(); ++i)
        rows.mask_strides[lead + i] = mask.shape[i] == 1 ? 0 : mask.strides[i];
    }
    if (p.use_length) {
      rows.length = in[in.size() - 1].data;
      rows.length_is_64 = in[in.size() - 1].dtype == DType::kInt64;
      rows.length_step = in[in.size() - 1].strides[0];
    }
  }

  // reserve() plans memory for a contiguous copy in the compute type unless the array already has
  // this form. reserve_scores() plans memory for all scores.
  void reserve(const TensorRef& t) { places_.push_back(wide(t) ? 0 : plan_.add(bytes(t))); }
  size_t reserve_scores() { return plan_.add(static_cast<size_t>(rows.rows * keys_) * sizeof(T)); }
  void allocate() { block_ = ctx_.scratch(plan_.bytes()); }

  // Must be called in the order of reserve(): load() converts an input, target() returns memory for
  // an output.
  T* load(const TensorRef& t) {
    T* const to = target(t);
    if (!wide(t)) convert_copy(ctx_, t, as_wide(t, to));
    return to;
  }
  T* target(const TensorRef& t) {
    const size_t at = places_[next_++];
    return wide(t) ? t.as<T>() : part<T>(block_, at);
  }
  void store(T* from, const TensorRef& t) {
    if (!wide(t)) convert_copy(ctx_, as_wide(t, from), t);
  }
  T* scores(size_t at) const { return part<T>(block_, at); }

  // Products of rows of queries and rows of keys: c = alpha * a b^T, alpha * a b and alpha * a^T b.
  void against_keys(const T* a, const T* b, int64_t d, double alpha, T* c) {
    gemm(ctx_,
         {.dtype = DTypeOf<T>::value,
          .trans_b = true,
          .m = rows_,
          .n = keys_,
          .k = d,
          .lda = d,
          .ldb = d,
          .ldc = keys_,
          .batch = matrices_,
          .stride_a = rows_ * d,
          .stride_b = keys_ * d,
          .stride_c = rows_ * keys_,
          .alpha = alpha},
         {a, b, c});
  }
  void over_keys(const T* scores, const T* b, int64_t d, double alpha, T* c) {
    gemm(ctx_,
         {.dtype = DTypeOf<T>::value,
          .m = rows_,
          .n = d,
          .k = keys_,
          .lda = keys_,
          .ldb = d,
          .ldc = d,
          .batch = matrices_,
          .stride_a = rows_ * keys_,
          .stride_b = keys_ * d,
          .stride_c = rows_ * d,
          .alpha = alpha},
         {scores, b, c});
  }
  void over_queries(const T* scores, const T* b, int64_t d, double alpha, T* c) {
    gemm(ctx_,
         {.dtype = DTypeOf<T>::value,
          .trans_a = true,
          .m = keys_,
          .n = d,
          .k = rows_,
          .lda = keys_,
          .ldb = d,
          .ldc = d,
          .batch = matrices_,
          .stride_a = rows_ * keys_,
          .stride_b = rows_ * d,
          .stride_c = keys_ * d,
          .alpha = alpha},
         {scores, b, c});
  }
  double scale() const { return scale_; }
  unsigned blocks() const { return blocks_per_task(ctx_, rows.rows); }

  ScoreRows rows;

 private:
  static bool wide(const TensorRef& t) { return t.dtype == DTypeOf<T>::value && t.contiguous; }
  static size_t bytes(const TensorRef& t) { return static_cast<size_t>(t.size()) * sizeof(T); }
  static TensorRef as_wide(const TensorRef& t, T* data) {
    return {data, t.shape, contiguous_strides(t.shape), DTypeOf<T>::value, true};
  }

  KernelContext& ctx_;
  const double scale_;
  int64_t matrices_, rows_, keys_;
  ScratchPlan plan_;
  SmallVector<size_t, 8> places_;
  size_t next_ = 0;
  void* block_ = nullptr;
};

template <class T>
void run_forward(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out) {
  Attention<T> a(ctx, p, in, 0, 3);
  for (int i = 0; i < 3; ++i) a.reserve(in[i]);
  a.reserve(out[0]);
  const size_t at = a.reserve_scores();
  a.allocate();
  if (ctx.training) a.rows.dropout = p.dropout;
  const T *query = a.load(in[0]), *key = a.load(in[1]), *value = a.load(in[2]);
  T* const output = a.target(out[0]);
  a.against_keys(query, key, in[0].shape[3], a.scale(), a.scores(at));
  launch(ctx, make_weights<T>, a.blocks(), kThreads, a.rows, device_random(ctx), a.scores(at),
         out[1].as<T>());
  a.over_keys(a.scores(at), value, in[2].shape[3], 1, output);
  a.store(output, out[0]);
}

template <class T>
void run_backward(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out) {
  Attention<T> a(ctx, p, in, 1, 7);
  for (int i = 0; i < 4; ++i) a.reserve(in[i]);
  a.reserve(in[5]);
  for (const TensorRef& grad : out) a.reserve(grad);
  const size_t at = a.reserve_scores(), grads_at = a.reserve_scores();
  a.allocate();
  a.rows.dropout = p.dropout;
  const T *dy = a.load(in[0]), *query = a.load(in[1]), *key = a.load(in[2]), *value = a.load(in[3]);
  const T* const log_sum = a.load(in[5]);
  T *const query_grad = a.target(out[0]), *const key_grad = a.target(out[1]),
           *const value_grad = a.target(out[2]);
  T *const scores = a.scores(at), *const grads = a.scores(grads_at);
  const int64_t d = in[1].shape[3], dv = in[3].shape[3];
  a.against_keys(query, key, d, a.scale(), scores);
  a.against_keys(dy, value, dv, 1, grads);
  launch(ctx, make_score_grads<T>, a.blocks(), kThreads, a.rows, in[6].as<const int64_t>(),
         in[6].strides[0], log_sum, scores, grads);
  a.over_queries(scores, dy, dv, 1, value_grad);
  a.over_keys(grads, key, d, a.scale(), query_grad);
  a.over_queries(grads, query, d, a.scale(), key_grad);
  a.store(query_grad, out[0]);
  a.store(key_grad, out[1]);
  a.store(value_grad, out[2]);
}

void attention(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out) {
  launch(ctx, write_state, 1, 1, device_random(ctx), out[2].as<int64_t>());
  const bool wide = out[1].dtype == DType::kFloat64;
  if (out[0].size() == 0 || in[1].shape[2] == 0) {
    zero_bytes(ctx, out[0].data, out[0].bytes());
    const int64_t n = out[1].size();
    if (wide)
      launch_items(ctx, fill_with<double>, n, n, static_cast<double>(INFINITY),
                   out[1].as<double>());
    else
      launch_items(ctx, fill_with<float>, n, n, INFINITY, out[1].as<float>());
    return;
  }
  if (fused_attention(ctx, p, in, out)) return;
  wide ? run_forward<double>(ctx, p, in, out) : run_forward<float>(ctx, p, in, out);
}

void attention_backward(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out) {
  if (in[0].size() == 0 || in[2].shape[2] == 0) {
    for (const TensorRef& grad : out) zero_bytes(ctx, grad.data, grad.bytes());
    return;
  }
  if (fused_attention_backward(ctx, p, in, out)) return;
  if (in[5].dtype == DType::kFloat64)
    run_backward<double>(ctx, p, in, out);
  else
    run_backward<float>(ctx, p, in, out);
}

void attention_factors(KernelContext& ctx, const AttentionDropoutParams& p, Inputs in,
                       Outputs out) {
  const AttentionParams call{
      .causal = p.causal, .dropout = p.p, .use_mask = p.use_mask, .use_length = p.use_length};
  MX_CHECK_KIND(
      !is_half(in[1].dtype) ||
          !has_fused_attention(ctx, call, in[1], in[2], in[3], p.use_mask ? &in[4] : nullptr),
      ErrorKind::kNotSupported,
      "dot_product_attention: cuDNN does not return dropout factors, which second-order gradients "
      "and the gradient of attention_mask need, got dropout=",
      p.p, " in ", in[1].dtype, "; use float32 or dropout=0, or set MXLITE_CUDNN_ATTENTION=0");
  const int64_t n = out[0].size();
  dispatch_float_elements("_dot_product_attention_dropout", p.dtype, [&]<class T>(T) {
    launch_items(ctx, write_factors<T>, n, n, p.shape[3], in[0].as<const int64_t>(),
                 in[0].strides[0], p.p, out[0].as<T>());
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::attention>("_contrib_dot_product_attention", kStrided);
  ops.cuda_kernel<&cuda::attention_backward>("_dot_product_attention_backward", kStrided);
  ops.cuda_kernel<&cuda::attention_factors>("_dot_product_attention_dropout", kStrided);
});

}  // namespace mxlite::cuda
