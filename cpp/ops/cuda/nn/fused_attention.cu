// Runs a plan of cuDNN: copies operands that cuDNN cannot read, converts lengths, seed and mask to
// cuDNN's format, and sets rows that attend to no key to zero.
#include <cmath>
#include <vector>

#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/nn/attention_plan.h"
#include "cpp/ops/cuda/nn/fused_attention.h"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/dispatch_line.h"
#include "cpp/ops/nn/attention_problem.h"

namespace mxlite::cuda {
namespace {

constexpr int64_t kVector = 8;  // 16-bit floats that one load of cuDNN reads
constexpr uintptr_t kVectorBytes = 16;
constexpr float kMasked = -1e29f;               // mask values of at most kMasked forbid a key
constexpr uint64_t kSeedStream = ~uint64_t{0};  // dropout masks use streams with small numbers

// The number of keys of each sample, clipped to [0, most].
struct Lengths {
  const void* data = nullptr;
  bool is_64 = false;
  int64_t step = 1, most = 0;

  __device__ int64_t at(int64_t b) const {
    if (!data) return most;
    const int64_t length = is_64 ? static_cast<const int64_t*>(data)[b * step]
                                 : int64_t{static_cast<const int32_t*>(data)[b * step]};
    return length < 0 ? 0 : length > most ? most : length;
  }
};

// Finds out which queries attend to no key.
struct Attended {
  Lengths lengths;
  int64_t heads = 0, q_length = 0;
  bool causal = false;
  const int32_t* first = nullptr;  // the first key that each row of the mask permits; null: no mask
  int64_t mask_batch = 1, mask_heads = 1, mask_queries = 1;  // the axes of `first`

  __device__ bool is_empty(int64_t row) const {
    const int64_t query = row % q_length, head = row / q_length % heads;
    const int64_t b = row / q_length / heads;
    int64_t keys = lengths.at(b);
    const int64_t past = query + 1 + lengths.most - q_length;
    if (causal && past < keys) keys = past;
    if (!first) return keys == 0;
    const int64_t at = b % mask_batch * mask_heads + head % mask_heads;
    return first[at * mask_queries + query % mask_queries] >= keys;
  }
};

// Memory from which cuDNN reads lengths and seed. Samples of length 0 get length 1, and their
// results are set to zero afterwards.
struct Prepared {
  int32_t *q_lengths = nullptr, *k_lengths = nullptr;
  int64_t *seed = nullptr, *offset = nullptr;
};

__global__ void prepare(int64_t batch, int64_t q_length, const __grid_constant__ Lengths lengths,
                        const int64_t* random_state, int64_t state_step,
                        const __grid_constant__ Prepared to) {
  for (int64_t b = global_index(); b < batch; b += grid_stride()) {
    if (to.k_lengths) {
      const int64_t length = lengths.at(b);
      to.q_lengths[b] = static_cast<int32_t>(q_length);
      to.k_lengths[b] = static_cast<int32_t>(length > 0 ? length : 1);
    }
    // Each call needs a different seed, because the counters of two calls would overlap.
    if (to.seed && b == 0) {
      const auto words = philox(static_cast<uint64_t>(random_state[0]),
                                static_cast<uint64_t>(random_state[state_step]), kSeedStream);
      *to.seed = static_cast<int64_t>(uint64_t{words[0]} << 32 | words[1]);
      *to.offset = 0;
    }
  }
}

// Replaces -inf, of which cuDNN computes NaN, by the finite number `lowest`, and finds the first
// key that each row permits. A warp reads a row.
__global__ void prepare_mask(int64_t rows, int64_t keys, int64_t step, DType dtype, float lowest,
                             void* mask, int32_t* first) {
  const int lane = threadIdx.x % kWarp;
  for (int64_t row = global_index() / kWarp; row < rows; row += grid_stride() / kWarp) {
    int64_t least = keys;
    for (int64_t k = lane; k < keys; k += kWarp) {
      const float value = load_as<float>(mask, dtype, row * step + k);
      if (value < lowest) store_as(mask, dtype, row * step + k, lowest);
      if (value > kMasked && k < least) least = k;
    }
    least = -warp_max(-least);
    if (lane == 0) first[row] = static_cast<int32_t>(least);
  }
}

// Zeroes the rows of queries that attend to no key. Forward marks them by log_sum = infinity, which
// backward reads.
__global__ void clear_rows(int64_t rows, int64_t width, const __grid_constant__ Attended attended,
                           bool mark, float* log_sum, uint16_t* values) {
  for (int64_t row = global_index(); row < rows; row += grid_stride()) {
    if (mark ? !attended.is_empty(row) : log_sum[row] != INFINITY) continue;
    if (mark) log_sum[row] = INFINITY;
    for (int64_t i = 0; i < width; ++i) values[row * width + i] = 0;
  }
}

// Zeroes the gradients of keys beyond a sample's length.
__global__ void clear_keys(int64_t n, int64_t heads, int64_t width,
                           const __grid_constant__ Lengths lengths, uint16_t* grads) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t row = i / width, b = row / lengths.most / heads;
    if (row % lengths.most >= lengths.at(b)) grads[i] = 0;
  }
}

bool is_aligned(const TensorRef& t) {
  return reinterpret_cast<uintptr_t>(t.data) % kVectorBytes == 0;
}
// Returns whether cuDNN can read the array without a copy.
bool is_readable(const TensorRef& t) {
  if (!is_aligned(t) || t.strides[3] != 1) return false;
  for (int i = 0; i < 3; ++i)
    if (t.shape[i] > 1 && (t.strides[i] <= 0 || t.strides[i] % kVector != 0)) return false;
  return true;
}

AttentionProblem::Steps contiguous_steps(const Shape& s) {
  return AttentionProblem::contiguous(s[1], s[2], s[3]);
}
// Returns the strides. Axes of size 1, whose strides have no effect, get the strides of a
// contiguous array.
AttentionProblem::Steps steps_of(const TensorRef& t) {
  AttentionProblem::Steps steps = contiguous_steps(t.shape);
  for (int i = 0; i < 3; ++i)
    if (t.shape[i] > 1) steps[static_cast<size_t>(i)] = t.strides[i];
  return steps;
}

TensorRef contiguous(const TensorRef& t, void* data) {
  return {data, t.shape, contiguous_strides(t.shape), t.dtype, true};
}

// Finds a plan. If cuDNN has none for a mask that is the same for all queries, `problem` may be
// changed to a problem whose mask is stored for every query.
std::shared_ptr<const AttentionPlan> find_plan(KernelContext& ctx, AttentionProblem& problem) {
  auto plan = find_attention_plan(ctx, problem);
  if (plan || !problem.use_mask || !problem.mask_repeats[2] || problem.q_length == 1) return plan;
  AttentionProblem stored = problem;
  stored.mask_repeats[2] = false;
  plan = find_attention_plan(ctx, stored);
  if (plan) problem = stored;
  return plan;
}

// One call: the arrays of the plan, in the caller's memory or in scratch memory.
class Call {
 public:
  Call(KernelContext& ctx, const AttentionProblem& problem) : ctx_(ctx), problem_(problem) {}

  // Add an operand of the plan: read() keeps its strides, the other functions make it contiguous.
  void read(AttentionTensor id, const TensorRef& t, AttentionProblem::Steps AttentionProblem::*at) {
    operands_.push_back({id, t, at, false, !is_readable(t)});
  }
  void read_contiguous(AttentionTensor id, const TensorRef& t) {
    operands_.push_back({id, t, nullptr, false, !t.contiguous || !is_aligned(t)});
  }
  void write(AttentionTensor id, const TensorRef& t) {
    operands_.push_back({id, t, nullptr, true, !is_aligned(t)});
  }
  void set_lengths(const TensorRef& t) {
    attended_.lengths.data = t.data;
    attended_.lengths.is_64 = t.dtype == DType::kInt64;
    attended_.lengths.step = t.strides[0];
  }
  void set_mask(const TensorRef& t) { mask_ = t; }

  // Returns false if cuDNN has no plan.
  bool run(const TensorRef& random_state) {
    attended_.lengths.most = problem_.k_length;
    attended_.heads = problem_.heads;
    attended_.q_length = problem_.q_length;
    attended_.causal = problem_.causal;
    std::shared_ptr<const AttentionPlan> plan = find();
    if (!plan) {
      for (Operand& o : operands_) o.copied |= !o.given.contiguous;
      plan = find();
    }
    if (!plan) return false;
    place(*plan);
    prepare_operands(random_state);
    plan->run(ctx_, pointers_, workspace_);
    for (const Operand& o : operands_)
      if (o.written && o.copied) convert_copy(ctx_, contiguous(o.given, pointers_[o.id]), o.given);
    return true;
  }

  // Returns the address that the plan assigned to an array.
  template <class T>
  T* pointer(AttentionTensor id) const {
    return static_cast<T*>(pointers_.at(id));
  }
  // See clear_rows for the arguments.
  void clear_masked_rows(const TensorRef& t, bool mark, float* log_sum) {
    if (!problem_.use_length && !problem_.use_mask) return;
    const int64_t rows = problem_.batch * problem_.heads * problem_.q_length;
    launch_items(ctx_, clear_rows, rows, rows, t.shape[3], attended_, mark, log_sum,
                 t.as<uint16_t>());
  }
  void clear_padding(const TensorRef& t) {
    if (!problem_.use_length) return;
    const int64_t n = t.size();
    launch_items(ctx_, clear_keys, n, n, problem_.key_heads, t.shape[3], attended_.lengths,
                 t.as<uint16_t>());
  }

 private:
  struct Operand {
    AttentionTensor id;
    TensorRef given;
    AttentionProblem::Steps AttentionProblem::*steps;  // null if contiguous
    bool written, copied;
    size_t place = 0;
  };

  std::shared_ptr<const AttentionPlan> find() {
    for (const Operand& o : operands_)
      if (o.steps)
        problem_.*o.steps = o.copied ? contiguous_steps(o.given.shape) : steps_of(o.given);
    return find_plan(ctx_, problem_);
  }

  void place(const AttentionPlan& plan) {
    ScratchPlan scratch;
    for (Operand& o : operands_)
      if (o.copied) o.place = scratch.add(o.given.bytes());
    // cuDNN's frontend declares an alignment of 16 bytes for every array, also for single numbers.
    const auto count = static_cast<size_t>(problem_.use_length ? problem_.batch : 0);
    const size_t q_lengths_at = scratch.add(count * sizeof(int32_t));
    const size_t k_lengths_at = scratch.add(count * sizeof(int32_t));
    const size_t seed_at = scratch.add(sizeof(int64_t)), offset_at = scratch.add(sizeof(int64_t));
    const auto rows = static_cast<size_t>(problem_.use_mask ? mask_rows() : 0);
    const auto row_bytes = static_cast<size_t>(mask_steps(problem_)[2]) * sizeof(uint16_t);
    const size_t mask_at = scratch.add(rows * row_bytes);
    const size_t first_at = scratch.add(rows * sizeof(int32_t));
    const size_t workspace_at = scratch.add(plan.workspace_bytes());
    void* const block = ctx_.scratch(scratch.bytes());
    for (const Operand& o : operands_)
      pointers_[o.id] = o.copied ? part<void>(block, o.place) : o.given.data;
    workspace_ = part<void>(block, workspace_at);
    if (problem_.use_length) {
      pointers_[kAttentionQueryLengths] = prepared_.q_lengths = part<int32_t>(block, q_lengths_at);
      pointers_[kAttentionKeyLengths] = prepared_.k_lengths = part<int32_t>(block, k_lengths_at);
    }
    if (problem_.dropout > 0) {
      pointers_[kAttentionSeed] = prepared_.seed = part<int64_t>(block, seed_at);
      pointers_[kAttentionOffset] = prepared_.offset = part<int64_t>(block, offset_at);
    }
    if (problem_.use_mask) {
      pointers_[kAttentionMask] = part<void>(block, mask_at);
      first_ = part<int32_t>(block, first_at);
    }
  }

  void prepare_operands(const TensorRef& random_state) {
    for (const Operand& o : operands_)
      if (!o.written && o.copied) convert_copy(ctx_, o.given, contiguous(o.given, pointers_[o.id]));
    if (problem_.use_length || problem_.dropout > 0)
      launch_items(ctx_, prepare, problem_.batch, problem_.batch, problem_.q_length,
                   attended_.lengths, random_state.as<const int64_t>(), random_state.strides[0],
                   prepared_);
    if (problem_.use_mask) copy_mask();
  }

  int64_t mask_rows() const {
    const auto shape = mask_shape(problem_);
    return shape[0] * shape[1] * shape[2];
  }

  void copy_mask() {
    const auto shape = mask_shape(problem_);
    const AttentionProblem::Steps steps = mask_steps(problem_);
    // Axes that the mask lacks or repeats along have stride 0.
    TensorRef source{mask_.data, {}, {}, mask_.dtype, false};
    TensorRef packed{pointers_[kAttentionMask], {}, {}, mask_.dtype, false};
    for (int i = 0; i < 4; ++i) {
      const int axis = mask_.shape.ndim() - 4 + i;
      source.shape.push_back(shape[static_cast<size_t>(i)]);
      source.strides.push_back(axis < 0 || mask_.shape[axis] == 1 ? 0 : mask_.strides[axis]);
      packed.strides.push_back(i == 3 ? 1 : steps[static_cast<size_t>(i)]);
    }
    packed.shape = source.shape;
    convert_copy(ctx_, source, packed);
    const int64_t rows = mask_rows();
    const float lowest = problem_.dtype == DType::kFloat16 ? -65504.0f  // the lowest number
                                                           : static_cast<float>(kMaskedScore);
    launch_items(ctx_, prepare_mask, rows * kWarp, rows, shape[3], steps[2], mask_.dtype, lowest,
                 packed.data, first_);
    attended_.first = first_;
    attended_.mask_batch = shape[0];
    attended_.mask_heads = shape[1];
    attended_.mask_queries = shape[2];
  }

  KernelContext& ctx_;
  AttentionProblem problem_;
  std::vector<Operand> operands_;
  Attended attended_;
  TensorRef mask_;
  int32_t* first_ = nullptr;
  Prepared prepared_;
  AttentionPointers pointers_;
  void* workspace_ = nullptr;
};

AttentionProblem describe(const AttentionParams& p, bool backward, float dropout,
                          const TensorRef& query, const TensorRef& key, const TensorRef& value,
                          const TensorRef* mask) {
  return describe_attention(p, backward, dropout, query.dtype, query.shape, key.shape, value.shape,
                            mask ? &mask->shape : nullptr);
}

// Returns nullptr if cuDNN supports the call, otherwise the reason for using matrix products.
const char* why_not_fused(KernelContext& ctx, const AttentionProblem& problem) {
  if (const char* reason = why_not_cudnn(problem)) return reason;
  if (problem.dropout == 0) return nullptr;
  // Forward and backward must drop the same weights: cuDNN needs a plan for both.
  AttentionProblem forward = problem, backward = problem;
  forward.backward = false;
  forward.output_grad = {};
  backward.backward = true;
  backward.output_grad = AttentionProblem::contiguous(problem.heads, problem.q_length, problem.dv);
  if (!find_plan(ctx, forward)) return "no plan of cuDNN for the forward";
  if (!find_plan(ctx, backward)) return "no plan of cuDNN for the backward";
  return nullptr;
}

bool ran(const char* op, const char* reason) {
  print_dispatch(op, "cudnn", reason);
  return reason == nullptr;
}

constexpr const char* kForward = "_contrib_dot_product_attention";
constexpr const char* kBackward = "_dot_product_attention_backward";

}  // namespace

bool fused_attention(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out) {
  const AttentionProblem problem = describe(p, false, ctx.training ? p.dropout : 0, in[0], in[1],
                                            in[2], p.use_mask ? &in[3] : nullptr);
  if (const char* reason = why_not_fused(ctx, problem)) return ran(kForward, reason);
  Call call(ctx, problem);
  call.read(kAttentionQuery, in[0], &AttentionProblem::query);
  call.read(kAttentionKey, in[1], &AttentionProblem::key);
  call.read(kAttentionValue, in[2], &AttentionProblem::value);
  call.write(kAttentionOutput, out[0]);
  call.write(kAttentionLogSum, out[1]);
  if (p.use_mask) call.set_mask(in[3]);
  if (p.use_length) call.set_lengths(in.back());
  if (!call.run(out[2])) return ran(kForward, "no plan of cuDNN");
  call.clear_masked_rows(out[0], true, out[1].as<float>());
  return ran(kForward, nullptr);
}

bool fused_attention_backward(KernelContext& ctx, const AttentionParams& p, Inputs in,
                              Outputs out) {
  const AttentionProblem problem =
      describe(p, true, p.dropout, in[1], in[2], in[3], p.use_mask ? &in[7] : nullptr);
  if (const char* reason = why_not_fused(ctx, problem)) return ran(kBackward, reason);
  Call call(ctx, problem);
  call.read(kAttentionQuery, in[1], &AttentionProblem::query);
  call.read(kAttentionKey, in[2], &AttentionProblem::key);
  call.read(kAttentionValue, in[3], &AttentionProblem::value);
  call.read(kAttentionOutputGrad, in[0], &AttentionProblem::output_grad);
  call.read_contiguous(kAttentionOutput, in[4]);
  call.read_contiguous(kAttentionLogSum, in[5]);
  call.write(kAttentionQueryGrad, out[0]);
  call.write(kAttentionKeyGrad, out[1]);
  call.write(kAttentionValueGrad, out[2]);
  if (p.use_mask) call.set_mask(in[7]);
  if (p.use_length) call.set_lengths(in.back());
  if (!call.run(in[6])) return ran(kBackward, "no plan of cuDNN");
  call.clear_masked_rows(out[0], false, call.pointer<float>(kAttentionLogSum));
  call.clear_padding(out[1]);
  call.clear_padding(out[2]);
  return ran(kBackward, nullptr);
}

bool has_fused_attention(KernelContext& ctx, const AttentionParams& p, const TensorRef& query,
                         const TensorRef& key, const TensorRef& value, const TensorRef* mask) {
  return why_not_fused(ctx, describe(p, false, p.dropout, query, key, value, mask)) == nullptr;
}

}  // namespace mxlite::cuda
