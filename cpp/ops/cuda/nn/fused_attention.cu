// Runs a plan of cuDNN: copies operands that cuDNN cannot read, converts lengths, seed and mask to
// its format, and sets rows that attend to no key to zero.
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

constexpr int64_t kVector = 8;  // 16-bit floats that cuDNN loads at once
constexpr uintptr_t kVectorBytes = 16;
constexpr float kMaskedRow = -1e29f;            // a row is masked if log_sum is below
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

// Memory from which cuDNN reads lengths and seed. Samples of length 0 get length 1, and their
// results are set to zero afterwards.
struct Prepared {
  int32_t *q_lengths = nullptr, *k_lengths = nullptr;
  int64_t* seed = nullptr;  // seed and offset
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
      to.seed[0] = static_cast<int64_t>(uint64_t{words[0]} << 32 | words[1]);
      to.seed[1] = 0;
    }
  }
}

// Replaces -inf, from which cuDNN computes NaN, by a finite number that masks a score as well.
__global__ void raise_mask(int64_t n, DType dtype, void* mask) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const float value = load_as<float>(mask, dtype, i);
    if (value < static_cast<float>(kMaskedScore))
      store_as(mask, dtype, i, static_cast<float>(kMaskedScore));
  }
}

// Zeroes the rows of queries that attend to no key; forward marks them by log_sum = infinity.
__global__ void clear_rows(int64_t rows, int64_t rows_of_sample, int64_t width,
                           const __grid_constant__ Lengths lengths, bool mark, float* log_sum,
                           uint16_t* values) {
  for (int64_t row = global_index(); row < rows; row += grid_stride()) {
    const float sum = log_sum[row];
    const bool masked =
        mark ? lengths.at(row / rows_of_sample) == 0 || sum < kMaskedRow : sum == INFINITY;
    if (!masked) continue;
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
// Returns the strides. Axes of size 1 get the strides of a contiguous array, because theirs have no
// effect.
AttentionProblem::Steps steps_of(const TensorRef& t) {
  AttentionProblem::Steps steps = contiguous_steps(t.shape);
  for (int i = 0; i < 3; ++i)
    if (t.shape[i] > 1) steps[static_cast<size_t>(i)] = t.strides[i];
  return steps;
}

TensorRef contiguous(const TensorRef& t, void* data) {
  return {data, t.shape, contiguous_strides(t.shape), t.dtype, true};
}

// One call: the arrays of the plan, in the caller's memory or in scratch memory.
class Call {
 public:
  Call(KernelContext& ctx, const AttentionProblem& problem) : ctx_(ctx), problem_(problem) {}

  // Add an operand of the plan: read() keeps its strides, the others add a contiguous array.
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
    lengths_.data = t.data;
    lengths_.is_64 = t.dtype == DType::kInt64;
    lengths_.step = t.strides[0];
  }
  void set_mask(const TensorRef& t) { mask_ = t; }

  // Returns false if cuDNN has no plan.
  bool run(const TensorRef& random_state) {
    lengths_.most = problem_.k_length;
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
    const int64_t rows_of_sample = problem_.heads * problem_.q_length;
    const int64_t rows = problem_.batch * rows_of_sample;
    launch_items(ctx_, clear_rows, rows, rows, rows_of_sample, t.shape[3], lengths_, mark, log_sum,
                 t.as<uint16_t>());
  }
  void clear_padding(const TensorRef& t) {
    if (!problem_.use_length) return;
    const int64_t n = t.size();
    launch_items(ctx_, clear_keys, n, n, problem_.key_heads, t.shape[3], lengths_,
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
    return find_attention_plan(ctx_, problem_);
  }

  void place(const AttentionPlan& plan) {
    ScratchPlan scratch;
    for (Operand& o : operands_)
      if (o.copied) o.place = scratch.add(o.given.bytes());
    const auto batch = static_cast<size_t>(problem_.batch);
    const size_t lengths_at = scratch.add(problem_.use_length ? 2 * batch * sizeof(int32_t) : 0);
    const size_t seed_at = scratch.add(2 * sizeof(int64_t));
    const size_t mask_at = scratch.add(static_cast<size_t>(mask_size(problem_)) * sizeof(uint16_t));
    const size_t workspace_at = scratch.add(plan.workspace_bytes());
    void* const block = ctx_.scratch(scratch.bytes());
    for (const Operand& o : operands_)
      pointers_[o.id] = o.copied ? part<void>(block, o.place) : o.given.data;
    workspace_ = part<void>(block, workspace_at);
    if (problem_.use_length) {
      prepared_.q_lengths = part<int32_t>(block, lengths_at);
      prepared_.k_lengths = prepared_.q_lengths + problem_.batch;
      pointers_[kAttentionQueryLengths] = prepared_.q_lengths;
      pointers_[kAttentionKeyLengths] = prepared_.k_lengths;
    }
    if (problem_.dropout > 0) {
      prepared_.seed = part<int64_t>(block, seed_at);
      pointers_[kAttentionSeed] = prepared_.seed;
      pointers_[kAttentionOffset] = prepared_.seed + 1;
    }
    if (problem_.use_mask) pointers_[kAttentionMask] = part<void>(block, mask_at);
  }

  void prepare_operands(const TensorRef& random_state) {
    for (const Operand& o : operands_)
      if (!o.written && o.copied) convert_copy(ctx_, o.given, contiguous(o.given, pointers_[o.id]));
    if (problem_.use_length || problem_.dropout > 0)
      launch_items(ctx_, prepare, problem_.batch, problem_.batch, problem_.q_length, lengths_,
                   random_state.as<const int64_t>(), random_state.strides[0], prepared_);
    if (problem_.use_mask) copy_mask();
  }

  void copy_mask() {
    const AttentionProblem::Steps steps = mask_steps(problem_);
    TensorRef packed{pointers_[kAttentionMask], mask_.shape, {}, mask_.dtype, false};
    const int lead = 4 - mask_.shape.ndim();
    for (int i = 0; i < mask_.shape.ndim(); ++i)
      packed.strides.push_back(lead + i == 3 ? 1 : steps[static_cast<size_t>(lead + i)]);
    convert_copy(ctx_, mask_, packed);
    const int64_t n = mask_size(problem_);
    launch_items(ctx_, raise_mask, n, n, mask_.dtype, packed.data);
  }

  KernelContext& ctx_;
  AttentionProblem problem_;
  std::vector<Operand> operands_;
  Lengths lengths_;
  TensorRef mask_;
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
  if (!find_attention_plan(ctx, forward)) return "no plan of cuDNN for the forward";
  if (!find_attention_plan(ctx, backward)) return "no plan of cuDNN for the backward";
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
