// Forward and backward recursion in logarithms and double, one sequence per thread. The gradient is
// computed with the loss, because both need the same tables.
#include "cpp/ops/nn/ctc_loss.h"

#include <cmath>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/nn/register.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace {

double log_add(double a, double b) {
  if (a == -INFINITY) return b;
  if (b == -INFINITY) return a;
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

int64_t value_at(const TensorRef& t, int64_t i) {
  return dispatch_dtype(t.dtype, [&]<class T>(T) {
    return static_cast<int64_t>(static_cast<ComputeType<T>>(t.as<T>()[i]));
  });
}

struct Problem {
  int64_t length, batch, classes, labels, blank;
  const TensorRef *label, *data_lengths = nullptr, *label_lengths = nullptr;

  int64_t frames(int64_t n) const {
    return data_lengths ? std::clamp<int64_t>(value_at(*data_lengths, n), 0, length) : length;
  }
  int64_t label_count(int64_t n) const {
    if (label_lengths) return std::clamp<int64_t>(value_at(*label_lengths, n), 0, labels);
    const int64_t padding = blank == 0 ? 0 : -1;
    int64_t count = 0;
    while (count < labels && value_at(*label, n * labels + count) != padding) ++count;
    return count;
  }
  // Class of state s: blanks at even states, labels between them.
  int64_t state_class(int64_t n, int64_t s) const {
    if (s % 2 == 0) return blank;
    return std::clamp<int64_t>(value_at(*label, n * labels + s / 2), 0, classes - 1);
  }
  int64_t max_states() const { return 2 * labels + 1; }
};

// Tables of one thread: log probabilities (length x classes), alpha (length x states), beta (two
// rows of states), class of each state.
struct Tables {
  double *log_prob, *alpha, *beta, *sums;
  int64_t* classes;
};

template <class T>
void normalize(const Problem& q, const T* data, int64_t n, int64_t frames, double* log_prob) {
  for (int64_t t = 0; t < frames; ++t) {
    const T* x = data + (t * q.batch + n) * q.classes;
    double top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < q.classes; ++k) top = std::max(top, static_cast<double>(x[k]));
    for (int64_t k = 0; k < q.classes; ++k) sum += std::exp(static_cast<double>(x[k]) - top);
    const double log_sum = top + std::log(sum);
    for (int64_t k = 0; k < q.classes; ++k)
      log_prob[t * q.classes + k] = static_cast<double>(x[k]) - log_sum;
  }
}

// May state s be entered from s - 2: between two different labels only.
bool may_skip(const Problem& q, const int64_t* classes, int64_t s) {
  return s >= 2 && classes[s] != q.blank && classes[s] != classes[s - 2];
}

double run_alpha(const Problem& q, const Tables& t, int64_t frames, int64_t states) {
  for (int64_t i = 0; i < frames; ++i)
    for (int64_t s = 0; s < states; ++s) {
      double v = -INFINITY;
      if (i == 0) {
        if (s < 2) v = 0;
      } else {
        const double* before = t.alpha + (i - 1) * states;
        v = before[s];
        if (s >= 1) v = log_add(v, before[s - 1]);
        if (may_skip(q, t.classes, s)) v = log_add(v, before[s - 2]);
      }
      t.alpha[i * states + s] = v + t.log_prob[i * q.classes + t.classes[s]];
    }
  const double* last = t.alpha + (frames - 1) * states;
  return states > 1 ? log_add(last[states - 1], last[states - 2]) : last[0];
}

template <class T>
void run_gradient(const Problem& q, const Tables& t, int64_t n, int64_t frames, int64_t states,
                  double log_likelihood, T* grad) {
  double *next = t.beta, *now = t.beta + states;
  for (int64_t i = frames - 1; i >= 0; --i) {
    for (int64_t s = 0; s < states; ++s) {
      double v = -INFINITY;
      if (i == frames - 1) {
        if (s >= states - 2) v = 0;
      } else {
        const double* prob = t.log_prob + (i + 1) * q.classes;
        v = next[s] + prob[t.classes[s]];
        if (s + 1 < states) v = log_add(v, next[s + 1] + prob[t.classes[s + 1]]);
        if (s + 2 < states && may_skip(q, t.classes, s + 2))
          v = log_add(v, next[s + 2] + prob[t.classes[s + 2]]);
      }
      now[s] = v;
    }
    std::fill_n(t.sums, q.classes, -INFINITY);
    for (int64_t s = 0; s < states; ++s) {
      double& sum = t.sums[t.classes[s]];
      sum = log_add(sum, t.alpha[i * states + s] + now[s]);
    }
    T* row = grad + (i * q.batch + n) * q.classes;
    for (int64_t k = 0; k < q.classes; ++k)
      row[k] = static_cast<T>(static_cast<ComputeType<T>>(std::exp(t.log_prob[i * q.classes + k]) -
                                                          std::exp(t.sums[k] - log_likelihood)));
    std::swap(next, now);
  }
}

void ctc_loss_native(KernelContext& ctx, const CTCLossParams& p, Inputs in, Outputs out) {
  Problem q{in[0].shape[0], in[0].shape[1], in[0].shape[2], in[1].shape[1], 0, &in[1]};
  if (p.blank_label == BlankLabel::kLast) q.blank = q.classes - 1;
  size_t next = 2;
  if (p.use_data_lengths) q.data_lengths = &in[next++];
  if (p.use_label_lengths) q.label_lengths = &in[next++];

  const int64_t states = q.max_states();
  cpu::ScratchPlan plan;
  const size_t prob = plan.add<double>(q.length * q.classes);
  const size_t alpha = plan.add<double>(q.length * states), beta = plan.add<double>(2 * states);
  const size_t sums = plan.add<double>(q.classes), classes = plan.add<int64_t>(states);
  char* block = static_cast<char*>(ctx.scratch(plan.bytes() * static_cast<size_t>(cpu_threads())));

  dispatch_floating("CTCLoss", in[0].dtype, [&]<class T>(T) {
    std::fill_n(out[1].as<T>(), out[1].size(), T(0));
    const int64_t work = q.length * (q.classes + states) * 8;
    cpu::parallel_ranges(q.batch, work, [&](int64_t begin, int64_t end, int thread) {
      char* own = block + plan.bytes() * static_cast<size_t>(thread);
      const Tables t{cpu::part<double>(own, prob), cpu::part<double>(own, alpha),
                     cpu::part<double>(own, beta), cpu::part<double>(own, sums),
                     cpu::part<int64_t>(own, classes)};
      for (int64_t n = begin; n < end; ++n) {
        const int64_t frames = q.frames(n), used = 2 * q.label_count(n) + 1;
        for (int64_t s = 0; s < used; ++s) t.classes[s] = q.state_class(n, s);
        double log_likelihood = used > 1 ? -INFINITY : 0;
        if (frames > 0) {
          normalize(q, in[0].as<T>(), n, frames, t.log_prob);
          log_likelihood = run_alpha(q, t, frames, used);
          // Labels that do not fit: infinite loss, no gradient.
          if (log_likelihood > -INFINITY)
            run_gradient(q, t, n, frames, used, log_likelihood, out[1].as<T>());
        }
        out[0].as<T>()[n] = static_cast<T>(static_cast<ComputeType<T>>(-log_likelihood));
      }
    });
  });
}

}  // namespace

void register_ctc_loss_cpu(OpRegistry& ops) {
  ops.kernel<ctc_loss_native>("CTCLoss", DeviceType::kCPU, {.inline_ok = false});
}

}  // namespace mxlite
