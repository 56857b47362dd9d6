// Divides attention calls among threads, and chooses the instruction set.
#include "cpp/core/threads.h"
#include "cpp/ops/cpu/nn/attention_blocks.h"
#include "cpp/ops/cpu/nn/attention_sizes.h"
#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::cpu {
namespace {

// Items per thread, so that threads that are slow or preempted leave work to the others.
constexpr int64_t kForwardItems = 4, kBackwardItems = 2;

bool has_avx512() {
  static const bool able = __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  return able;
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class T>
AttentionPlan plan_items(const AttentionCall& c, int64_t items_per_thread) {
  AttentionPlan plan;
  plan.block_rows = divide_up(c.q_length, divide_up(c.q_length, AttentionSizes<T>::kRows));
  plan.blocks = divide_up(c.q_length, plan.block_rows);
  const int64_t threads = cpu_threads(), heads = c.batch * c.key_heads;
  const int64_t scores = c.batch * c.heads * c.q_length * c.k_length;
  if (threads == 1 || scores * (c.d + c.dv) <= kParallelWork * 4) return plan;
  plan.parts = std::min(divide_up(items_per_thread * threads, heads), c.group() * plan.blocks);
  plan.threads = static_cast<int>(std::min(threads, plan.items(c)));
  return plan;
}

}  // namespace

template <class T>
AttentionPlan plan_attention_forward(const AttentionCall& c) {
  AttentionPlan plan = plan_items<T>(c, kForwardItems);
  const AttentionSizes<T> sizes(c, plan.block_rows);
  plan.thread_bytes = sizes.forward() * static_cast<int64_t>(sizeof(T));
  return plan;
}

template <class T>
AttentionPlan plan_attention_backward(const AttentionCall& c) {
  AttentionPlan plan = plan_items<T>(c, kBackwardItems);
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

template AttentionPlan plan_attention_forward<float>(const AttentionCall&);
template AttentionPlan plan_attention_forward<double>(const AttentionCall&);
template AttentionPlan plan_attention_backward<float>(const AttentionCall&);
template AttentionPlan plan_attention_backward<double>(const AttentionCall&);
template void attention_forward<float>(const AttentionCall&, const AttentionPlan&, void*);
template void attention_forward<double>(const AttentionCall&, const AttentionPlan&, void*);
template void attention_backward<float>(const AttentionCall&, const AttentionPlan&, void*);
template void attention_backward<double>(const AttentionCall&, const AttentionPlan&, void*);

}  // namespace mxlite::cpu
