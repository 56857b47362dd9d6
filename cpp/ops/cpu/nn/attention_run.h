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
#pragma omp parallel num_threads(plan.threads) if (plan.threads > 1)
  {
    const int thread = omp_get_thread_num();
    Loop loop(c, plan, scratch + thread * stride);
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < items; ++i) fn(loop, i, thread);
  }
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
#pragma omp parallel for schedule(dynamic) num_threads(plan.threads) if (plan.threads > 1)
  for (int64_t head = 0; head < heads; ++head)
    Backward::finish(c, plan, head, sums + head * plan.parts * stride);
}

}  // namespace
}  // namespace mxlite::cpu
