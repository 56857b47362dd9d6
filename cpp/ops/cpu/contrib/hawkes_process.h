// One sample of a Hawkes process: log likelihood and derivatives, for every device.
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cpp/base/host_device.h"

namespace mxlite::hawkes {

template <class T>
MX_HOST_DEVICE double number(T v) {
  if constexpr (std::is_same_v<T, double>)
    return v;
  else
    return static_cast<double>(static_cast<float>(v));
}
template <class T>
MX_HOST_DEVICE T rounded(double v) {
  if constexpr (std::is_same_v<T, double>)
    return v;
  else
    return static_cast<T>(static_cast<float>(v));
}

// The arrays of one call. marks and lengths return valid integers.
template <class T, class Index>
struct Process {
  const T *lda, *alpha, *beta, *state, *lags, *max_time;
  Index marks, lengths;
  int64_t samples, kinds, events;
};

// The interval from the last event of a kind to a later time, with the kind's state at the start.
struct EventInterval {
  double mu, alpha, beta, state, length, decay;

  template <class P>
  MX_HOST_DEVICE EventInterval(const P& p, int64_t n, int64_t kind, double at_start, double time)
      : mu(number(p.lda[n * p.kinds + kind])),
        alpha(number(p.alpha[kind])),
        beta(number(p.beta[kind])),
        state(at_start),
        length(time),
        decay(std::exp(-beta * time)) {}
  MX_HOST_DEVICE double intensity() const { return mu + alpha * beta * state * decay; }
  MX_HOST_DEVICE double compensator() const { return mu * length + alpha * state * (1 - decay); }
};

// On return, the arrays state and last, with `kinds` numbers each, hold their values at time
// max_time.
template <class P>
MX_HOST_DEVICE double likelihood(const P& p, int64_t n, double* state, double* last) {
  double sum = 0, time = 0;
  for (int64_t k = 0; k < p.kinds; ++k) {
    state[k] = number(p.state[n * p.kinds + k]);
    last[k] = 0;
  }
  for (int64_t j = n * p.events; j < n * p.events + p.lengths[n]; ++j) {
    const int64_t k = p.marks[j];
    time += number(p.lags[j]);
    const EventInterval i(p, n, k, state[k], time - last[k]);
    sum += std::log(i.intensity()) - i.compensator();
    state[k] = 1 + state[k] * i.decay;
    last[k] = time;
  }
  for (int64_t k = 0; k < p.kinds; ++k) {
    const EventInterval i(p, n, k, state[k], number(p.max_time[n]) - last[k]);
    sum -= i.compensator();
    state[k] *= i.decay;
  }
  return sum;
}

// Sums of derivatives of one sample while events are processed in reverse order.
struct Reverse {
  double *mu, *alpha, *beta, *state, *last;  // arrays with one number per kind

  // Backward of one interval of kind k. The differentiated value is grad_lik * (-compensator, plus
  // the log intensity if `event`) + grad_decayed * state * decay. Adds its derivatives to mu, alpha
  // and beta of the kind, sets state to the derivative with respect to the state at the interval's
  // start, and returns the derivative with respect to the interval's length.
  MX_HOST_DEVICE double interval(int64_t k, const EventInterval& i, bool event, double grad_lik,
                                 double grad_decayed) {
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

// Stores for each event the state of its kind before the event and the time since the kind's last
// event, and finally both numbers for every kind.
template <class P>
MX_HOST_DEVICE void record(const P& p, int64_t n, double* states, double* lengths, double* state,
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

// Destinations of the derivatives of sample n, given the arrays of the call.
template <class T>
struct Gradients {
  T *lda, *state, *lags, *max_time;
  double* sums;  // (samples, 2, kinds): sums for alpha and beta, initially zero
};
inline MX_HOST_DEVICE int64_t work_size(int64_t events, int64_t kinds) {
  return 2 * events + 5 * kinds;
}

// `work` has room for work_size numbers. `lik_grad` and `state_grad` are the gradients of the
// outputs.
template <class P, class T>
MX_HOST_DEVICE void sample_gradient(const P& p, int64_t n, double* work, const T* lik_grad,
                                    const T* state_grad, const Gradients<T>& out) {
  const int64_t kinds = p.kinds, events = p.events;
  double *lengths = work + events, *state = lengths + events, *last = state + kinds;
  double* const alpha = out.sums + n * 2 * kinds;
  Reverse r{last + kinds, alpha, alpha + kinds, last + 2 * kinds, last + 3 * kinds};
  record(p, n, work, lengths, state, last);
  for (int64_t k = 0; k < kinds; ++k) r.mu[k] = 0;
  const double grad = number(lik_grad[n]), end_time = number(p.max_time[n]);
  double time_grad = 0;
  for (int64_t k = 0; k < kinds; ++k) {
    const EventInterval i(p, n, k, state[k], end_time - last[k]);
    const double by_length = r.interval(k, i, false, grad, number(state_grad[n * kinds + k]));
    time_grad += by_length;
    r.last[k] = -by_length;
  }
  out.max_time[n] = rounded<T>(time_grad);
  T* const lag_grad = out.lags + n * events;
  for (int64_t e = p.lengths[n]; e < events; ++e) lag_grad[e] = rounded<T>(0);
  double since = 0;  // derivative with respect to the time of this event and all later events
  for (int64_t e = p.lengths[n] - 1; e >= 0; --e) {
    const int64_t k = p.marks[n * events + e];
    const EventInterval i(p, n, k, work[e], lengths[e]);
    const double by_length = r.interval(k, i, true, grad, r.state[k]);
    since += r.last[k] + by_length;
    r.last[k] = -by_length;
    lag_grad[e] = rounded<T>(since);
  }
  for (int64_t k = 0; k < kinds; ++k) {
    out.lda[n * kinds + k] = rounded<T>(r.mu[k]);
    out.state[n * kinds + k] = rounded<T>(r.state[k]);
  }
}

// Returns the gradient of kind k of alpha (k < kinds) or of beta (k - kinds), summed over the
// samples in order.
inline MX_HOST_DEVICE double sum_of_samples(const double* sums, int64_t samples, int64_t kinds,
                                            int64_t k) {
  double sum = 0;
  for (int64_t n = 0; n < samples; ++n) sum += sums[n * 2 * kinds + k];
  return sum;
}

}  // namespace mxlite::hawkes
