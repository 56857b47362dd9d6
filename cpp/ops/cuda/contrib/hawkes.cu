// One thread per sample. A GPU kernel cannot throw like the CPU kernel: if a mark or a length is
// out of range, the sample's likelihood, state and gradients are NaN.
#include "cpp/ops/cpu/contrib/hawkes_process.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

constexpr const char* kOp = "_contrib_hawkesll";

struct Integers {
  const void* data;
  DType dtype;
  __device__ int64_t operator[](int64_t i) const { return load_any<int64_t>(data, dtype, i); }
};

template <class T>
struct Process : hawkes::Process<T, Integers> {
  explicit Process(Inputs in)
      : hawkes::Process<T, Integers>{in[0].as<T>(),
                                     in[1].as<T>(),
                                     in[2].as<T>(),
                                     in[3].as<T>(),
                                     in[4].as<T>(),
                                     in[7].as<T>(),
                                     {in[5].data, in[5].dtype},
                                     {in[6].data, in[6].dtype},
                                     in[0].shape[0],
                                     in[0].shape[1],
                                     in[4].shape[1]} {}
  __device__ bool valid(int64_t n) const {
    const int64_t length = this->lengths[n];
    if (length < 0 || length > this->events) return false;
    for (int64_t j = n * this->events; j < n * this->events + length; ++j)
      if (this->marks[j] < 0 || this->marks[j] >= this->kinds) return false;
    return true;
  }
};

// `states` has room for 2 * kinds numbers per sample.
template <class T>
__global__ void hawkes_kernel(const __grid_constant__ Process<T> p, double* states, T* lik,
                              T* end_state) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t n = global_index(); n < p.samples; n += grid_stride()) {
    double* const state = states + n * 2 * p.kinds;
    const bool valid = p.valid(n);
    lik[n] = hawkes::rounded<T>(valid ? likelihood(p, n, state, state + p.kinds) : nan);
    for (int64_t k = 0; k < p.kinds; ++k)
      end_state[n * p.kinds + k] = hawkes::rounded<T>(valid ? state[k] : nan);
  }
}

template <class T>
__global__ void hawkes_backward_kernel(const __grid_constant__ Process<T> p, double* work,
                                       const T* lik_grad, const T* state_grad,
                                       hawkes::Gradients<T> out) {
  const int64_t size = hawkes::work_size(p.events, p.kinds);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t n = global_index(); n < p.samples; n += grid_stride()) {
    const bool valid = p.valid(n);
    for (int64_t k = 0; k < 2 * p.kinds; ++k) out.sums[n * 2 * p.kinds + k] = valid ? 0 : nan;
    if (valid) {
      sample_gradient(p, n, work + n * size, lik_grad, state_grad, out);
      continue;
    }
    const T bad = hawkes::rounded<T>(nan);
    out.max_time[n] = bad;
    for (int64_t e = 0; e < p.events; ++e) out.lags[n * p.events + e] = bad;
    for (int64_t k = 0; k < p.kinds; ++k)
      out.lda[n * p.kinds + k] = out.state[n * p.kinds + k] = bad;
  }
}

template <class T>
__global__ void sum_samples(int64_t samples, int64_t kinds, const double* sums, T* alpha, T* beta) {
  for (int64_t k = global_index(); k < 2 * kinds; k += grid_stride())
    (k < kinds ? alpha : beta)[k % kinds] =
        hawkes::rounded<T>(hawkes::sum_of_samples(sums, samples, kinds, k));
}

void hawkesll(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  dispatch_float_elements(kOp, in[0].dtype, [&]<class T>(T) {
    const Process<T> p(in);
    auto* const states = static_cast<double*>(
        ctx.scratch(static_cast<size_t>(2 * p.samples * p.kinds) * sizeof(double)));
    launch_items(ctx, hawkes_kernel<T>, p.samples, p, states, out[0].as<T>(), out[1].as<T>());
  });
}

// `in`: gradients of likelihood and state, then the inputs. `out`: gradients of lda, alpha, beta,
// state, lags and max_time.
void hawkesll_backward(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  dispatch_float_elements(kOp, in[0].dtype, [&]<class T>(T) {
    const Process<T> p(in.subspan(2));
    ScratchPlan plan;
    const size_t sums_at = plan.add(static_cast<size_t>(2 * p.samples * p.kinds) * sizeof(double));
    const int64_t work = p.samples * hawkes::work_size(p.events, p.kinds);
    const size_t work_at = plan.add(static_cast<size_t>(work) * sizeof(double));
    void* const block = ctx.scratch(plan.bytes());
    double* const sums = part<double>(block, sums_at);
    launch_items(
        ctx, hawkes_backward_kernel<T>, p.samples, p, part<double>(block, work_at), in[0].as<T>(),
        in[1].as<T>(),
        hawkes::Gradients<T>{out[0].as<T>(), out[3].as<T>(), out[4].as<T>(), out[5].as<T>(), sums});
    launch_items(ctx, sum_samples<T>, 2 * p.kinds, p.samples, p.kinds, sums, out[1].as<T>(),
                 out[2].as<T>());
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::hawkesll>(cuda::kOp);
  ops.cuda_kernel<&cuda::hawkesll_backward>("_hawkesll_backward");
});

}  // namespace mxlite::cuda
