// Forward and backward recursion with logarithms in double, one sequence per thread. The gradient
// is computed together with the loss, because both need the same tables.
#include "cpp/ops/nn/ctc_loss.h"

#include <cmath>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/pointwise/simd_math.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

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
  // Returns the class of state s: blank for even states, a label for odd states.
  int64_t state_class(int64_t n, int64_t s) const {
    if (s % 2 == 0) return blank;
    return std::clamp<int64_t>(value_at(*label, n * labels + s / 2), 0, classes - 1);
  }
  int64_t max_states() const { return 2 * labels + 1; }
};

// Rows of states have two additional unreachable states at the front or the end. So every state has
// three predecessors, and loops over states vectorize.
constexpr int64_t kEdge = 2;

// Tables of one thread: log probabilities (length x classes), alpha (length x states), and one row
// of states each for emit, reach, beta and skip. skip is 0 if a state can be entered from the state
// two positions before it (only between different labels), else -inf. sums has one entry per class.
struct Tables {
  double *log_prob, *alpha, *emit, *reach, *beta, *skip, *sums;
  int64_t* classes;
};

// Returns log(exp(a) + exp(b) + exp(c)), or -inf if all are -inf. Clamps exponents to the range
// where exp is fast, which changes the result by less than rounding.
inline double log_add(double a, double b, double c) {
  constexpr double kLeast = -700;
  const double largest = std::max(std::max(a, b), c);
  const double top = largest == -INFINITY ? 0 : largest;
  const double sum = std::exp(std::max(a - top, kLeast)) + std::exp(std::max(b - top, kLeast)) +
                     std::exp(std::max(c - top, kLeast));
  return largest == -INFINITY ? largest : top + std::log(sum);
}

template <class T>
void normalize(const Problem& q, const T* data, int64_t n, int64_t frames, double* log_prob) {
  const int64_t classes = q.classes;
  for (int64_t t = 0; t < frames; ++t) {
    const T* const x = data + (t * q.batch + n) * classes;
    double* const row = log_prob + t * classes;
    double top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < classes; ++k) {
      row[k] = static_cast<double>(x[k]);
      top = std::max(top, row[k]);
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(row[k] - top);
    const double log_sum = top + std::log(sum);
    for (int64_t k = 0; k < classes; ++k) row[k] -= log_sum;
  }
}

void find_states(const Problem& q, int64_t n, int64_t states, const Tables& t) {
  for (int64_t s = 0; s < states; ++s) {
    t.classes[s] = q.state_class(n, s);
    const bool may_skip = s >= 2 && t.classes[s] != q.blank && t.classes[s] != t.classes[s - 2];
    t.skip[s] = may_skip ? 0 : -INFINITY;
  }
  std::fill_n(t.skip + states, kEdge, -INFINITY);
}

double run_alpha(const Problem& q, const Tables& t, int64_t frames, int64_t states) {
  const int64_t step = states + kEdge;
  for (int64_t i = 0; i < frames; ++i) {
    double* const now = t.alpha + i * step + kEdge;
    const double* const before = now - step;
    const double* const prob = t.log_prob + i * q.classes;
    double* const emit = t.emit;
    for (int64_t s = 0; s < states; ++s) emit[s] = prob[t.classes[s]];
    std::fill_n(now - kEdge, kEdge, -INFINITY);
    if (i == 0) {
      for (int64_t s = 0; s < states; ++s) now[s] = s < 2 ? emit[s] : -INFINITY;
      continue;
    }
    const double* const skip = t.skip;
#pragma omp simd
    for (int64_t s = 0; s < states; ++s)
      now[s] = log_add(before[s], before[s - 1], before[s - 2] + skip[s]) + emit[s];
  }
  const double* const last = t.alpha + (frames - 1) * step + kEdge;
  return states > 1 ? log_add(last[states - 1], last[states - 2], -INFINITY) : last[0];
}

template <class T>
void run_gradient(const Problem& q, const Tables& t, int64_t n, int64_t frames, int64_t states,
                  double log_likelihood, T* grad) {
  const int64_t classes = q.classes;
  double *const beta = t.beta, *const reach = t.reach;
  std::fill_n(reach + states, kEdge, -INFINITY);
  for (int64_t i = frames - 1; i >= 0; --i) {
    if (i == frames - 1) {
      for (int64_t s = 0; s < states; ++s) beta[s] = s >= states - 2 ? 0 : -INFINITY;
    } else {
      const double* const prob = t.log_prob + (i + 1) * classes;
      for (int64_t s = 0; s < states; ++s) reach[s] = beta[s] + prob[t.classes[s]];
      const double* const skip = t.skip;
#pragma omp simd
      for (int64_t s = 0; s < states; ++s)
        beta[s] = log_add(reach[s], reach[s + 1], reach[s + 2] + skip[s + 2]);
    }
    // Computes the probability of each state at this frame, then of each class.
    const double* const alpha = t.alpha + i * (states + kEdge) + kEdge;
    double *const emit = t.emit, *const sums = t.sums;
#pragma omp simd
    for (int64_t s = 0; s < states; ++s)
      emit[s] = std::exp(std::max(alpha[s] + beta[s] - log_likelihood, -700.0));
    std::fill_n(sums, classes, 0.0);
    for (int64_t s = 0; s < states; ++s) sums[t.classes[s]] += emit[s];
    T* const row = grad + (i * q.batch + n) * classes;
    const double* const log_prob = t.log_prob + i * classes;
#pragma omp simd
    for (int64_t k = 0; k < classes; ++k)
      row[k] = static_cast<T>(static_cast<ComputeType<T>>(std::exp(log_prob[k]) - sums[k]));
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
  const size_t alpha = plan.add<double>(q.length * (states + kEdge));
  const size_t emit = plan.add<double>(states), reach = plan.add<double>(states + kEdge);
  const size_t beta = plan.add<double>(states), skip = plan.add<double>(states + kEdge);
  const size_t sums = plan.add<double>(q.classes), classes = plan.add<int64_t>(states);
  char* block = static_cast<char*>(ctx.scratch(plan.bytes() * static_cast<size_t>(cpu_threads())));

  dispatch_floating("CTCLoss", in[0].dtype, [&]<class T>(T) {
    std::fill_n(out[1].as<T>(), out[1].size(), T(0));
    const int64_t work = q.length * (q.classes + states) * 8;
    cpu::parallel_ranges(q.batch, work, [&](int64_t begin, int64_t end, int thread) {
      char* own = block + plan.bytes() * static_cast<size_t>(thread);
      const Tables t{cpu::part<double>(own, prob), cpu::part<double>(own, alpha),
                     cpu::part<double>(own, emit), cpu::part<double>(own, reach),
                     cpu::part<double>(own, beta), cpu::part<double>(own, skip),
                     cpu::part<double>(own, sums), cpu::part<int64_t>(own, classes)};
      for (int64_t n = begin; n < end; ++n) {
        const int64_t frames = q.frames(n), used = 2 * q.label_count(n) + 1;
        find_states(q, n, used, t);
        double log_likelihood = used > 1 ? -INFINITY : 0;
        if (frames > 0) {
          normalize(q, in[0].as<T>(), n, frames, t.log_prob);
          log_likelihood = run_alpha(q, t, frames, used);
          // If the labels do not fit into the frames, the loss is infinite and the gradient 0.
          if (log_likelihood > -INFINITY)
            run_gradient(q, t, n, frames, used, log_likelihood, out[1].as<T>());
        }
        out[0].as<T>()[n] = static_cast<T>(static_cast<ComputeType<T>>(-log_likelihood));
      }
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<ctc_loss_native>("CTCLoss", {.inline_ok = false});
});

}  // namespace mxlite
