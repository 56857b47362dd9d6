// Divides attention calls among threads, and selects the instruction set.
#include "cpp/core/threads.h"
#include "cpp/ops/cpu/nn/attention_blocks.h"
#include "cpp/ops/cpu/nn/attention_sizes.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/processor.h"

namespace mxlite::cpu {
namespace {

// Number of items per thread. With more than one item, other threads can take items of a slow
// thread.
constexpr int64_t kForwardItems = 4, kBackwardItems = 2;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

AttentionPlan plan_items(const AttentionCall& c, int64_t most_rows, int64_t items_per_thread) {
  AttentionPlan plan;
  plan.block_rows = divide_up(c.q_length, divide_up(c.q_length, most_rows));
  plan.blocks = divide_up(c.q_length, plan.block_rows);
  const int64_t threads = cpu_threads(), heads = c.batch * c.key_heads;
  const int64_t scores = c.batch * c.heads * c.q_length * c.k_length;
  const double work = static_cast<double>(scores * (c.d + c.dv)) * kProductNanoseconds;
  if (threads == 1 || threads_for(work) == 1) return plan;
  plan.parts = std::min(divide_up(items_per_thread * threads, heads), c.group() * plan.blocks);
  plan.threads = static_cast<int>(std::min(threads, plan.items(c)));
  return plan;
}

}  // namespace

template <class T>
AttentionPlan plan_attention_forward(const AttentionCall& c) {
  AttentionPlan plan = plan_items(c, AttentionSizes<T>::kRows, kForwardItems);
  const AttentionSizes<T> sizes(c, plan.block_rows);
  plan.thread_bytes = sizes.forward() * static_cast<int64_t>(sizeof(T));
  return plan;
}

template <class T>
AttentionPlan plan_attention_backward(const AttentionCall& c) {
  AttentionPlan plan = plan_items(c, AttentionSizes<T>::kRows, kBackwardItems);
  const AttentionSizes<T> sizes(c, plan.block_rows);
  plan.thread_bytes = sizes.backward() * static_cast<int64_t>(sizeof(T));
  plan.sum_bytes = sizes.key_grads() * static_cast<int64_t>(sizeof(T));
  return plan;
}

template <class T>
void attention_forward(const AttentionCall& c, const AttentionPlan& plan, void* scratch) {
  T* const memory = static_cast<T*>(scratch);
  has_avx512() ? avx512::attention_forward(c, plan, memory)
               : avx2::attention_forward(c, plan, memory);
}
template <class T>
void attention_backward(const AttentionCall& c, const AttentionPlan& plan, void* scratch) {
  T* const memory = static_cast<T*>(scratch);
  has_avx512() ? avx512::attention_backward(c, plan, memory)
               : avx2::attention_backward(c, plan, memory);
}

bool has_bfloat16_attention() { return has_amx_bf16(); }

template <>
AttentionPlan plan_attention_forward<bfloat16>(const AttentionCall& c) {
  using Sizes = AttentionSizes<bfloat16>;
  AttentionPlan plan = plan_items(c, Sizes::kForwardRows, kForwardItems);
  plan.thread_bytes = Sizes(c, plan.block_rows).forward_bytes();
  return plan;
}
template <>
AttentionPlan plan_attention_backward<bfloat16>(const AttentionCall& c) {
  using Sizes = AttentionSizes<bfloat16>;
  AttentionPlan plan = plan_items(c, Sizes::kBackwardRows, kBackwardItems);
  const Sizes sizes(c, plan.block_rows);
  plan.thread_bytes = sizes.backward_bytes();
  plan.sum_bytes = sizes.key_grads() * static_cast<int64_t>(sizeof(float));
  return plan;
}
template <>
void attention_forward<bfloat16>(const AttentionCall& c, const AttentionPlan& plan, void* scratch) {
  amx::attention_forward(c, plan, static_cast<float*>(scratch));
}
template <>
void attention_backward<bfloat16>(const AttentionCall& c, const AttentionPlan& plan,
                                  void* scratch) {
  amx::attention_backward(c, plan, static_cast<float*>(scratch));
}

template AttentionPlan plan_attention_forward<float>(const AttentionCall&);
template AttentionPlan plan_attention_forward<double>(const AttentionCall&);
template AttentionPlan plan_attention_backward<float>(const AttentionCall&);
template AttentionPlan plan_attention_backward<double>(const AttentionCall&);
template void attention_forward<float>(const AttentionCall&, const AttentionPlan&, void*);
template void attention_forward<double>(const AttentionCall&, const AttentionPlan&, void*);
template void attention_backward<float>(const AttentionCall&, const AttentionPlan&, void*);
template void attention_backward<double>(const AttentionCall&, const AttentionPlan&, void*);

}  // namespace mxlite::cpu
