#include <algorithm>

#include "cpp/ops/cpu/contrib/hawkes_process.h"
#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kHawkesOp = "_contrib_hawkesll";

template <class T>
using Process = hawkes::Process<T, const int64_t*>;

// `buffer` has room for marks.size() + lengths.size() numbers.
template <class T>
Process<T> checked_process(Inputs in, int64_t* buffer) {
  const Process<T> p{in[0].as<T>(),
                     in[1].as<T>(),
                     in[2].as<T>(),
                     in[3].as<T>(),
                     in[4].as<T>(),
                     in[7].as<T>(),
                     cpu::index_values(in[5], buffer),
                     cpu::index_values(in[6], buffer + in[5].size()),
                     in[0].shape[0],
                     in[0].shape[1],
                     in[4].shape[1]};
  for (int64_t n = 0; n < p.samples; ++n) {
    MX_CHECK_KIND(p.lengths[n] >= 0 && p.lengths[n] <= p.events, ErrorKind::kIndex, kHawkesOp,
                  ": valid_length[", n, "] must be from 0 to ", p.events, ", got ", p.lengths[n]);
    for (int64_t j = n * p.events; j < n * p.events + p.lengths[n]; ++j)
      MX_CHECK_KIND(p.marks[j] >= 0 && p.marks[j] < p.kinds, ErrorKind::kIndex, kHawkesOp,
                    ": marks of sample ", n, " must be from 0 to ", p.kinds - 1, ", got ",
                    p.marks[j]);
  }
  return p;
}

void hawkesll_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  dispatch_floating(kHawkesOp, in[0].dtype, [&]<class T>(T) {
    const int64_t kinds = in[0].shape[1];
    cpu::ScratchPlan plan;
    const size_t indices_at = plan.add<int64_t>(in[5].size() + in[6].size());
    const size_t states_at = plan.add<double>(2 * kinds * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    const Process<T> p = checked_process<T>(in, cpu::part<int64_t>(block, indices_at));
    cpu::parallel_ranges(
        p.samples, 64 * (p.events + kinds), [&](int64_t begin, int64_t end, int t) {
          double* state = cpu::part<double>(block, states_at) + t * 2 * kinds;
          for (int64_t n = begin; n < end; ++n) {
            out[0].as<T>()[n] = hawkes::rounded<T>(likelihood(p, n, state, state + kinds));
            for (int64_t k = 0; k < kinds; ++k)
              out[1].as<T>()[n * kinds + k] = hawkes::rounded<T>(state[k]);
          }
        });
  });
}

// `in`: gradients of likelihood and state, then the inputs. `out`: gradients of lda, alpha, beta,
// state, lags and max_time.
void hawkesll_backward_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  dispatch_floating(kHawkesOp, in[0].dtype, [&]<class T>(T) {
    const int64_t samples = in[2].shape[0], kinds = in[2].shape[1], events = in[6].shape[1];
    const int64_t per_thread = hawkes::work_size(events, kinds);
    cpu::ScratchPlan plan;
    const size_t indices_at = plan.add<int64_t>(in[7].size() + in[8].size());
    const size_t sums_at = plan.add<double>(2 * samples * kinds);
    const size_t threads_at = plan.add<double>(per_thread * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    const Process<T> p = checked_process<T>(in.subspan(2), cpu::part<int64_t>(block, indices_at));
    double* sums = cpu::part<double>(block, sums_at);
    std::fill_n(sums, 2 * samples * kinds, 0.0);
    const hawkes::Gradients<T> to{out[0].as<T>(), out[3].as<T>(), out[4].as<T>(), out[5].as<T>(),
                                  sums};
    cpu::parallel_ranges(samples, 128 * (events + kinds), [&](int64_t begin, int64_t end, int t) {
      double* work = cpu::part<double>(block, threads_at) + t * per_thread;
      for (int64_t n = begin; n < end; ++n)
        sample_gradient(p, n, work, in[0].as<T>(), in[1].as<T>(), to);
    });
    for (int64_t k = 0; k < 2 * kinds; ++k)
      out[k < kinds ? 1 : 2].as<T>()[k % kinds] =
          hawkes::rounded<T>(hawkes::sum_of_samples(sums, samples, kinds, k));
  });
}

}  // namespace

static const Registration hawkes_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<hawkesll_native>(kHawkesOp, {.inline_ok = false});
  ops.cpu_kernel<hawkesll_backward_native>("_hawkesll_backward", {.inline_ok = false});
});

}  // namespace mxlite
