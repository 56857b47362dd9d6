// Runs the items of an attention call on threads. Included once per instruction set, after the
// loops.
#pragma once

namespace mxlite::cpu {
namespace {

// Calls fn(loop, item, thread) for every item. Each thread has a separate loop object.
template <class Loop, class T, class F>
void for_items(const AttentionCall& c, const AttentionPlan& plan, T* scratch, F&& fn) {
  const int64_t items = plan.items(c);
  const int64_t stride = plan.thread_bytes / static_cast<int64_t>(sizeof(T));
  const auto run = [&](int64_t begin, int64_t end, int thread) {
    Loop loop(c, plan, scratch + thread * stride);
    for (int64_t i = begin; i < end; ++i) fn(loop, i, thread);
  };
  if (plan.threads == 1) return run(0, items, 0);
  const int64_t products = c.batch * c.heads * c.q_length * c.k_length * (c.d + c.dv);
  share_range(items, 1, products / kProductsPerElement / items, run, plan.threads);
}

template <class Forward, class T>
void run_forward(const AttentionCall& c, const AttentionPlan& plan, T* scratch) {
  for_items<Forward>(c, plan, scratch, [](auto& loop, int64_t i, int) { loop.run(i); });
}

template <class Backward, class T>
void run_backward(const AttentionCall& c, const AttentionPlan& plan, T* scratch) {
  T* const sums = scratch + plan.threads * plan.thread_bytes / static_cast<int64_t>(sizeof(T));
  const int64_t stride = plan.sum_bytes / static_cast<int64_t>(sizeof(T));
  for_items<Backward>(c, plan, scratch, [&](auto& loop, int64_t i, int thread) {
    T* const own = sums + (plan.parts == 1 ? thread : i) * stride;
    loop.run(i, own);
    if (plan.parts == 1) Backward::finish(c, plan, i, own);
  });
  if (plan.parts == 1) return;
  const int64_t heads = c.batch * c.key_heads;
  parallel_for(heads, plan.parts * stride, [&](int64_t head) {
    Backward::finish(c, plan, head, sums + head * plan.parts * stride);
  });
}

}  // namespace
}  // namespace mxlite::cpu
