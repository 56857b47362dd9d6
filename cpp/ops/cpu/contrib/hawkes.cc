#include <cmath>

#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace {

constexpr const char* kOp = "_contrib_hawkesll";

// The arrays of one call: marks and lengths as checked integers.
template <class T>
struct Process {
  const T *lda, *alpha, *beta, *state, *lags, *max_time;
  const int64_t *marks, *lengths;
  int64_t samples, kinds, events;

  // `buffer` holds marks.size() + lengths.size() numbers.
  Process(Inputs in, int64_t* buffer)
      : lda(in[0].as<T>()),
        alpha(in[1].as<T>()),
        beta(in[2].as<T>()),
        state(in[3].as<T>()),
        lags(in[4].as<T>()),
        max_time(in[7].as<T>()),
        marks(cpu::index_values(in[5], buffer)),
        lengths(cpu::index_values(in[6], buffer + in[5].size())),
        samples(in[0].shape[0]),
        kinds(in[0].shape[1]),
        events(in[4].shape[1]) {
    for (int64_t n = 0; n < samples; ++n) {
      MX_CHECK_KIND(lengths[n] >= 0 && lengths[n] <= events, ErrorKind::kIndex, kOp,
                    ": valid_length[", n, "] is ", lengths[n], ", 0 to ", events, " expected");
      for (int64_t j = n * events; j < n * events + lengths[n]; ++j)
        MX_CHECK_KIND(marks[j] >= 0 && marks[j] < kinds, ErrorKind::kIndex, kOp, ": a mark of ",
                      "sample ", n, " is ", marks[j], ", 0 to ", kinds - 1, " expected");
    }
  }
};

template <class T>
double number(T v) {
  return static_cast<double>(static_cast<ComputeType<T>>(v));
}
template <class T>
T rounded(double v) {
  return static_cast<T>(static_cast<ComputeType<T>>(v));
}

// What one kind of events looked like from the last event of that kind to some later time.
struct Interval {
  double mu, alpha, beta, state, length, decay;

  template <class T>
  Interval(const Process<T>& p, int64_t n, int64_t kind, double at_start, double time)
      : mu(number(p.lda[n * p.kinds + kind])),
        alpha(number(p.alpha[kind])),
        beta(number(p.beta[kind])),
        state(at_start),
        length(time),
        decay(std::exp(-beta * time)) {}
  double intensity() const { return mu + alpha * beta * state * decay; }
  double compensator() const { return mu * length + alpha * state * (1 - decay); }
};

// state and last (kinds numbers each) end as at max_time and the last events.
template <class T>
double likelihood(const Process<T>& p, int64_t n, double* state, double* last) {
  double sum = 0, time = 0;
  for (int64_t k = 0; k < p.kinds; ++k) {
    state[k] = number(p.state[n * p.kinds + k]);
    last[k] = 0;
  }
  for (int64_t j = n * p.events; j < n * p.events + p.lengths[n]; ++j) {
    const int64_t k = p.marks[j];
    time += number(p.lags[j]);
    const Interval i(p, n, k, state[k], time - last[k]);
    sum += std::log(i.intensity()) - i.compensator();
    state[k] = 1 + state[k] * i.decay;
    last[k] = time;
  }
  for (int64_t k = 0; k < p.kinds; ++k) {
    const Interval i(p, n, k, state[k], number(p.max_time[n]) - last[k]);
    sum -= i.compensator();
    state[k] *= i.decay;
  }
  return sum;
}

void hawkesll_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  dispatch_floating(kOp, in[0].dtype, [&]<class T>(T) {
    const int64_t kinds = in[0].shape[1];
    cpu::ScratchPlan plan;
    const size_t indices_at = plan.add<int64_t>(in[5].size() + in[6].size());
    const size_t states_at = plan.add<double>(2 * kinds * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    const Process<T> p(in, cpu::part<int64_t>(block, indices_at));
    cpu::parallel_ranges(p.samples, 64 * (p.events + kinds),
                         [&](int64_t begin, int64_t end, int t) {
                           double* state = cpu::part<double>(block, states_at) + t * 2 * kinds;
                           for (int64_t n = begin; n < end; ++n) {
                             out[0].as<T>()[n] = rounded<T>(likelihood(p, n, state, state + kinds));
                             for (int64_t k = 0; k < kinds; ++k)
                               out[1].as<T>()[n * kinds + k] = rounded<T>(state[k]);
                           }
                         });
  });
}

// Sums of derivatives of one sample while events are walked backwards.
struct Reverse {
  double *mu, *alpha, *beta, *state, *last;  // one number per kind

  // Adds grad_lik times the derivative of -compensator (and, with event, of the log intensity) and
  // grad_decayed times that of state * decay. Returns the derivative by the interval's length.
  double interval(int64_t k, const Interval& i, bool event, double grad_lik, double grad_decayed) {
    const double by_intensity = event ? grad_lik / i.intensity() : 0;
    const double decayed = i.state * i.decay;
    mu[k] += by_intensity - grad_lik * i.length;
    alpha[k] += by_intensity * i.beta * decayed - grad_lik * i.state * (1 - i.decay);
    beta[k] += by_intensity * i.alpha * decayed;
    state[k] = grad_decayed * i.decay + by_intensity * i.alpha * i.beta * i.decay -
               grad_lik * i.alpha * (1 - i.decay);
    const double by_decay =
        i.state * (grad_decayed + by_intensity * i.alpha * i.beta + grad_lik * i.alpha);
    beta[k] -= by_decay * i.decay * i.length;
    return -grad_lik * i.mu - by_decay * i.decay * i.beta;
  }
};

// Before each event: the state of its kind and the time since the last one; per kind at the end.
template <class T>
void record(const Process<T>& p, int64_t n, double* states, double* lengths, double* state,
            double* last) {
  double time = 0;
  for (int64_t k = 0; k < p.kinds; ++k) {
    state[k] = number(p.state[n * p.kinds + k]);
    last[k] = 0;
  }
  for (int64_t e = 0; e < p.lengths[n]; ++e) {
    const int64_t k = p.marks[n * p.events + e];
    time += number(p.lags[n * p.events + e]);
    states[e] = state[k];
    lengths[e] = time - last[k];
    state[k] = 1 + state[k] * std::exp(-number(p.beta[k]) * lengths[e]);
    last[k] = time;
  }
}

// in: gradients of likelihood and state, then the inputs; out: of lda, alpha, beta, state, lags,
// max_time. alpha's and beta's are summed over samples afterwards, in order.
void hawkesll_backward_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  dispatch_floating(kOp, in[0].dtype, [&]<class T>(T) {
    const int64_t samples = in[2].shape[0], kinds = in[2].shape[1], events = in[6].shape[1];
    const int64_t per_thread = 2 * events + 5 * kinds;
    cpu::ScratchPlan plan;
    const size_t indices_at = plan.add<int64_t>(in[7].size() + in[8].size());
    const size_t sums_at = plan.add<double>(2 * samples * kinds);
    const size_t threads_at = plan.add<double>(per_thread * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    const Process<T> p(in.subspan(2), cpu::part<int64_t>(block, indices_at));
    double* sums = cpu::part<double>(block, sums_at);
    std::fill_n(sums, 2 * samples * kinds, 0.0);
    cpu::parallel_ranges(samples, 128 * (events + kinds), [&](int64_t begin, int64_t end, int t) {
      double* states = cpu::part<double>(block, threads_at) + t * per_thread;
      double *lengths = states + events, *state = lengths + events, *last = state + kinds;
      Reverse r{last + kinds, nullptr, nullptr, last + 2 * kinds, last + 3 * kinds};
      for (int64_t n = begin; n < end; ++n) {
        record(p, n, states, lengths, state, last);
        std::fill_n(r.mu, kinds, 0.0);
        r.alpha = sums + n * 2 * kinds;
        r.beta = r.alpha + kinds;
        const double grad = number(in[0].as<T>()[n]), end_time = number(p.max_time[n]);
        double time_grad = 0;
        for (int64_t k = 0; k < kinds; ++k) {
          const Interval i(p, n, k, state[k], end_time - last[k]);
          const double by_length =
              r.interval(k, i, false, grad, number(in[1].as<T>()[n * kinds + k]));
          time_grad += by_length;
          r.last[k] = -by_length;
        }
        out[5].as<T>()[n] = rounded<T>(time_grad);
        T* lag_grad = out[4].as<T>() + n * events;
        for (int64_t e = p.lengths[n]; e < events; ++e) lag_grad[e] = rounded<T>(0);
        double since = 0;  // derivative by the time of this event and of all later ones
        for (int64_t e = p.lengths[n] - 1; e >= 0; --e) {
          const int64_t k = p.marks[n * events + e];
          const Interval i(p, n, k, states[e], lengths[e]);
          const double by_length = r.interval(k, i, true, grad, r.state[k]);
          since += r.last[k] + by_length;
          r.last[k] = -by_length;
          lag_grad[e] = rounded<T>(since);
        }
        for (int64_t k = 0; k < kinds; ++k) {
          out[0].as<T>()[n * kinds + k] = rounded<T>(r.mu[k]);
          out[3].as<T>()[n * kinds + k] = rounded<T>(r.state[k]);
        }
      }
    });
    for (int64_t k = 0; k < 2 * kinds; ++k) {
      double sum = 0;
      for (int64_t n = 0; n < samples; ++n) sum += sums[n * 2 * kinds + k];
      out[k < kinds ? 1 : 2].as<T>()[k % kinds] = rounded<T>(sum);
    }
  });
}

}  // namespace

void register_hawkes_cpu(OpRegistry& ops) {
  constexpr DeviceType kCPU = DeviceType::kCPU;
  ops.kernel<hawkesll_native>(kOp, kCPU, {.inline_ok = false});
  ops.kernel<hawkesll_backward_native>("_hawkesll_backward", kCPU, {.inline_ok = false});
}

}  // namespace mxlite
