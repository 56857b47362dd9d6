// The update rules of optimizers. A rule object is constructed once and then updates blocks.
// Updates usually overwrite the weight; `omp simd` lets the compiler vectorize loops that do so.
// Kernels for other devices apply a rule to blocks of one element.
#pragma once
#include "cpp/ops/cpu/optimizer/update.h"
#include "cpp/ops/optimizer/updates.h"

namespace mxlite::optimizer {

#ifdef __CUDACC__
#define MX_FOR_BLOCK(b) for (int64_t i = 0; i < (b).n; ++i)
#else
#define MX_FOR_BLOCK(b) _Pragma("omp simd") for (int64_t i = 0; i < (b).n; ++i)
#endif

template <class C>
MX_HOST_DEVICE C sign_of(C x) {
  return static_cast<C>(x > C(0)) - static_cast<C>(x < C(0));
}

// Returns the learning rate of update number t, corrected for means that start at 0. t is 0 if the
// rate is already corrected.
MX_HOST_DEVICE inline double corrected_rate(double lr, double beta1, double beta2, int64_t t) {
  const auto n = static_cast<double>(t);
  return t == 0 ? lr : lr * (std::sqrt(1 - std::pow(beta2, n)) / (1 - std::pow(beta1, n)));
}

// Keeps the weight. Rules that divide by the learning rate call this function if the rate is 0, as
// at the start of a warm-up, and also keep their states.
template <class C>
MX_HOST_DEVICE void keep_weight(const Block<C>& b) {
  MX_FOR_BLOCK(b) b.new_weight[i] = b.weight[i];
}

template <class C>
struct Sgd {
  C lr, wd, rescale, bound;
  template <class P>
  MX_HOST_DEVICE explicit Sgd(const P& p)
      : lr(static_cast<C>(p.lr)),
        wd(static_cast<C>(p.wd)),
        rescale(static_cast<C>(p.rescale_grad)),
        bound(bound_of<C>(p.clip_gradient)) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    MX_FOR_BLOCK(b) {
      const C g = limited(rescale * b.grad[i], bound);
      b.new_weight[i] = b.weight[i] - lr * (g + wd * b.weight[i]);
    }
  }
};

template <class C>
struct SgdMom {
  Sgd<C> base;
  C momentum;
  MX_HOST_DEVICE explicit SgdMom(const SgdMomParams& p)
      : base(p), momentum(static_cast<C>(p.momentum)) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C* mom = b.state[0];
    MX_FOR_BLOCK(b) {
      const C g = limited(base.rescale * b.grad[i], base.bound);
      mom[i] = momentum * mom[i] - base.lr * (g + base.wd * b.weight[i]);
      b.new_weight[i] = b.weight[i] + mom[i];
    }
  }
};

template <class C>
struct Nag {
  Sgd<C> base;
  C momentum;
  MX_HOST_DEVICE explicit Nag(const NagParams& p) : base(p), momentum(static_cast<C>(p.momentum)) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C* mom = b.state[0];
    MX_FOR_BLOCK(b) {
      const C g = limited(base.rescale * b.grad[i], base.bound);
      const C step = base.lr * (g + base.wd * b.weight[i]);
      mom[i] = momentum * mom[i] - step;
      b.new_weight[i] = b.weight[i] + momentum * mom[i] - step;
    }
  }
};

template <class C>
struct Adam {
  Sgd<C> base;
  C beta1, beta2, epsilon;
  MX_HOST_DEVICE explicit Adam(const AdamParams& p)
      : base(p),
        beta1(static_cast<C>(p.beta1)),
        beta2(static_cast<C>(p.beta2)),
        epsilon(static_cast<C>(p.epsilon)) {
    base.lr = static_cast<C>(corrected_rate(p.lr, p.beta1, p.beta2, p.t));
  }
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C *mean = b.state[0], *var = b.state[1];
    MX_FOR_BLOCK(b) {
      const C g = limited(base.rescale * b.grad[i] + base.wd * b.weight[i], base.bound);
      mean[i] = beta1 * mean[i] + (C(1) - beta1) * g;
      var[i] = beta2 * var[i] + (C(1) - beta2) * g * g;
      b.new_weight[i] = b.weight[i] - base.lr * mean[i] / (std::sqrt(var[i]) + epsilon);
    }
  }
};

template <class C>
struct AdamW {
  C lr, wd, eta, rescale, bound, beta1, beta2, epsilon;
  MX_HOST_DEVICE explicit AdamW(const AdamWParams& p)
      : lr(static_cast<C>(corrected_rate(p.lr, p.beta1, p.beta2, p.t))),
        wd(static_cast<C>(p.wd)),
        eta(static_cast<C>(p.eta)),
        rescale(C(1)),
        bound(bound_of<C>(p.clip_gradient)),
        beta1(static_cast<C>(p.beta1)),
        beta2(static_cast<C>(p.beta2)),
        epsilon(static_cast<C>(p.epsilon)) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C *mean = b.state[0], *var = b.state[1];
    MX_FOR_BLOCK(b) {
      const C g = limited(rescale * b.grad[i], bound);
      mean[i] = beta1 * mean[i] + (C(1) - beta1) * g;
      var[i] = beta2 * var[i] + (C(1) - beta2) * g * g;
      const C step = lr * mean[i] / (std::sqrt(var[i]) + epsilon);
      b.new_weight[i] = b.weight[i] - eta * (step + wd * b.weight[i]);
    }
  }
};

template <class C>
struct Adagrad {
  Sgd<C> base;
  C epsilon;
  MX_HOST_DEVICE explicit Adagrad(const AdagradParams& p)
      : base(p), epsilon(static_cast<C>(p.epsilon)) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C* history = b.state[0];
    MX_FOR_BLOCK(b) {
      const C g = limited(base.rescale * b.grad[i], base.bound);
      history[i] += g * g;
      b.new_weight[i] =
          b.weight[i] - base.lr * (g / std::sqrt(history[i] + epsilon) + base.wd * b.weight[i]);
    }
  }
};

template <class C>
struct Rmsprop {
  Sgd<C> base;
  C gamma1, epsilon, weight_bound;
  MX_HOST_DEVICE explicit Rmsprop(const RmspropParams& p)
      : base(p),
        gamma1(static_cast<C>(p.gamma1)),
        epsilon(static_cast<C>(p.epsilon)),
        weight_bound(bound_of<C>(p.clip_weights)) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C* n = b.state[0];
    MX_FOR_BLOCK(b) {
      const C g = limited(base.rescale * b.grad[i] + base.wd * b.weight[i], base.bound);
      n[i] = gamma1 * n[i] + (C(1) - gamma1) * g * g;
      b.new_weight[i] =
          limited(b.weight[i] - base.lr * g / std::sqrt(n[i] + epsilon), weight_bound);
    }
  }
};

template <class C>
struct RmspropAlex {
  Sgd<C> base;
  C gamma1, gamma2, epsilon, weight_bound;
  MX_HOST_DEVICE explicit RmspropAlex(const RmspropAlexParams& p)
      : base(p),
        gamma1(static_cast<C>(p.gamma1)),
        gamma2(static_cast<C>(p.gamma2)),
        epsilon(static_cast<C>(p.epsilon)),
        weight_bound(bound_of<C>(p.clip_weights)) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C *n = b.state[0], *mean = b.state[1], *delta = b.state[2];
    MX_FOR_BLOCK(b) {
      const C g = limited(base.rescale * b.grad[i] + base.wd * b.weight[i], base.bound);
      n[i] = gamma1 * n[i] + (C(1) - gamma1) * g * g;
      mean[i] = gamma1 * mean[i] + (C(1) - gamma1) * g;
      delta[i] = gamma2 * delta[i] - base.lr * g / std::sqrt(n[i] - mean[i] * mean[i] + epsilon);
      b.new_weight[i] = limited(b.weight[i] + delta[i], weight_bound);
    }
  }
};

template <class C>
struct Ftrl {
  Sgd<C> base;
  C lamda1, beta;
  MX_HOST_DEVICE explicit Ftrl(const FtrlParams& p)
      : base(p), lamda1(static_cast<C>(p.lamda1)), beta(static_cast<C>(p.beta)) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    if (base.lr == C(0)) return keep_weight(b);
    C *z = b.state[0], *n = b.state[1];
    MX_FOR_BLOCK(b) {
      const C g = limited(base.rescale * b.grad[i], base.bound);
      const C root = std::sqrt(n[i] + g * g);
      z[i] += g - (root - std::sqrt(n[i])) * b.weight[i] / base.lr;
      n[i] += g * g;
      const C w = (sign_of(z[i]) * lamda1 - z[i]) / ((beta + root) / base.lr + base.wd);
      b.new_weight[i] = std::fabs(z[i]) > lamda1 ? w : C(0);
    }
  }
};

template <class C>
struct Ftml {
  C lr, wd, rescale, bound, beta1, beta2, epsilon, correction1, correction2;
  MX_HOST_DEVICE explicit Ftml(const FtmlParams& p)
      : lr(static_cast<C>(p.lr)),
        wd(static_cast<C>(p.wd)),
        rescale(static_cast<C>(p.rescale_grad)),
        bound(bound_of<C>(p.clip_grad)),
        beta1(static_cast<C>(p.beta1)),
        beta2(static_cast<C>(p.beta2)),
        epsilon(static_cast<C>(p.epsilon)),
        correction1(static_cast<C>(1 - std::pow(p.beta1, static_cast<double>(p.t)))),
        correction2(static_cast<C>(1 - std::pow(p.beta2, static_cast<double>(p.t)))) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    if (lr == C(0)) return keep_weight(b);
    C *d = b.state[0], *v = b.state[1], *z = b.state[2];
    MX_FOR_BLOCK(b) {
      const C g = limited(rescale * b.grad[i] + wd * b.weight[i], bound);
      v[i] = beta2 * v[i] + (C(1) - beta2) * g * g;
      const C next = correction1 / lr * (std::sqrt(v[i] / correction2) + epsilon);
      z[i] = beta1 * z[i] + (C(1) - beta1) * g - (next - beta1 * d[i]) * b.weight[i];
      b.new_weight[i] = -z[i] / next;
      d[i] = next;
    }
  }
};

template <class C>
struct SignSgd {
  Sgd<C> base;
  MX_HOST_DEVICE explicit SignSgd(const SignParams& p) : base(p) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    MX_FOR_BLOCK(b)
    b.new_weight[i] =
        b.weight[i] - base.lr * (sign_of(base.rescale * b.grad[i]) + base.wd * b.weight[i]);
  }
};

template <class C>
struct Signum {
  Sgd<C> base;
  C momentum, wd_lh;
  MX_HOST_DEVICE explicit Signum(const SignumParams& p)
      : base(p), momentum(static_cast<C>(p.momentum)), wd_lh(static_cast<C>(p.wd_lh)) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C* mom = b.state[0];
    MX_FOR_BLOCK(b) {
      const C g = limited(base.rescale * b.grad[i], base.bound);
      mom[i] = momentum * mom[i] - (C(1) - momentum) * (g + base.wd * b.weight[i]);
      b.new_weight[i] = (C(1) - base.lr * wd_lh) * b.weight[i] + base.lr * sign_of(mom[i]);
    }
  }
};

template <class C>
struct Adamax {
  Sgd<C> base;
  C beta1, beta2;
  MX_HOST_DEVICE explicit Adamax(const AdamaxParams& p)
      : base(p), beta1(static_cast<C>(p.beta1)), beta2(static_cast<C>(p.beta2)) {
    if (p.t > 0) base.lr = static_cast<C>(p.lr / (1 - std::pow(p.beta1, static_cast<double>(p.t))));
  }
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C *mean = b.state[0], *largest = b.state[1];
    MX_FOR_BLOCK(b) {
      const C g = limited(base.rescale * b.grad[i] + base.wd * b.weight[i], base.bound);
      mean[i] = beta1 * mean[i] + (C(1) - beta1) * g;
      const C old = beta2 * largest[i], now = std::fabs(g);
      largest[i] = old > now ? old : now;
      // All gradients so far are 0, for example because an input is always 0. 0 / 0 would give NaN.
      const C step = largest[i] == C(0) ? C(0) : base.lr * mean[i] / largest[i];
      b.new_weight[i] = b.weight[i] - step;
    }
  }
};

template <class C>
struct Nadam {
  Sgd<C> base;
  C beta1, beta2, epsilon, grad_part, mean_part, correction;
  MX_HOST_DEVICE explicit Nadam(const NadamParams& p)
      : base(p),
        beta1(static_cast<C>(p.beta1)),
        beta2(static_cast<C>(p.beta2)),
        epsilon(static_cast<C>(p.epsilon)),
        grad_part(static_cast<C>((1 - p.momentum) / (1 - p.schedule))),
        mean_part(static_cast<C>(p.next_momentum / (1 - p.schedule * p.next_momentum))),
        correction(static_cast<C>(1 - std::pow(p.beta2, static_cast<double>(p.t)))) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C *mean = b.state[0], *var = b.state[1];
    MX_FOR_BLOCK(b) {
      const C g = limited(base.rescale * b.grad[i] + base.wd * b.weight[i], base.bound);
      mean[i] = beta1 * mean[i] + (C(1) - beta1) * g;
      var[i] = beta2 * var[i] + (C(1) - beta2) * g * g;
      const C step = base.lr * (grad_part * g + mean_part * mean[i]);
      b.new_weight[i] = b.weight[i] - step / (std::sqrt(var[i] / correction) + epsilon);
    }
  }
};

template <class C>
struct Adadelta {
  C wd, rescale, bound, rho, epsilon;
  MX_HOST_DEVICE explicit Adadelta(const AdadeltaParams& p)
      : wd(static_cast<C>(p.wd)),
        rescale(static_cast<C>(p.rescale_grad)),
        bound(bound_of<C>(p.clip_gradient)),
        rho(static_cast<C>(p.rho)),
        epsilon(static_cast<C>(p.epsilon)) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C *squares = b.state[0], *steps = b.state[1];
    MX_FOR_BLOCK(b) {
      const C g = limited(rescale * b.grad[i], bound);
      squares[i] = rho * squares[i] + (C(1) - rho) * g * g;
      const C step = std::sqrt(steps[i] + epsilon) / std::sqrt(squares[i] + epsilon) * g;
      steps[i] = rho * steps[i] + (C(1) - rho) * step * step;
      b.new_weight[i] = b.weight[i] - (step + wd * b.weight[i]);
    }
  }
};

// `previous` is the weight at the last update.
template <class C>
struct Dcasgd {
  Sgd<C> base;
  C lamda;
  MX_HOST_DEVICE explicit Dcasgd(const DcasgdParams& p) : base(p), lamda(static_cast<C>(p.lamda)) {}
  MX_HOST_DEVICE C step(C weight, C grad, C previous) const {
    const C g = limited(base.rescale * grad, base.bound);
    return -base.lr * (g + base.wd * weight + lamda * g * g * (weight - previous));
  }
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C* previous = b.state[0];
    MX_FOR_BLOCK(b) {
      const C weight = b.weight[i], change = step(weight, b.grad[i], previous[i]);
      previous[i] = weight;
      b.new_weight[i] = weight + change;
    }
  }
};

template <class C>
struct DcasgdMom : Dcasgd<C> {
  C momentum;
  MX_HOST_DEVICE explicit DcasgdMom(const DcasgdParams& p)
      : Dcasgd<C>(p), momentum(static_cast<C>(p.momentum)) {}
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C *mom = b.state[0], *previous = b.state[1];
    MX_FOR_BLOCK(b) {
      const C weight = b.weight[i];
      mom[i] = momentum * mom[i] + this->step(weight, b.grad[i], previous[i]);
      previous[i] = weight;
      b.new_weight[i] = weight + mom[i];
    }
  }
};

// First phase of LAMB: writes the update direction instead of the new weight to new_weight.
template <class C>
struct Lamb {
  C wd, rescale, bound, beta1, beta2, epsilon, correction1, correction2;
  MX_HOST_DEVICE explicit Lamb(const LambParams& p)
      : wd(static_cast<C>(p.wd)),
        rescale(static_cast<C>(p.rescale_grad)),
        bound(bound_of<C>(p.clip_gradient)),
        beta1(static_cast<C>(p.beta1)),
        beta2(static_cast<C>(p.beta2)),
        epsilon(static_cast<C>(p.epsilon)),
        correction1(p.bias_correction ? correction(p.beta1, p.t) : C(1)),
        correction2(p.bias_correction ? correction(p.beta2, p.t) : C(1)) {}
  MX_HOST_DEVICE static C correction(double beta, int64_t t) {
    return static_cast<C>(1 - std::pow(beta, static_cast<double>(t)));
  }
  MX_HOST_DEVICE C step(C mean, C var, C weight) const {
    return mean / correction1 / (std::sqrt(var / correction2) + epsilon) + wd * weight;
  }
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    C *mean = b.state[0], *var = b.state[1];
    MX_FOR_BLOCK(b) {
      const C g = limited(rescale * b.grad[i], bound);
      mean[i] = beta1 * mean[i] + (C(1) - beta1) * g;
      var[i] = beta2 * var[i] + (C(1) - beta2) * g * g;
      b.new_weight[i] = step(mean[i], var[i], b.weight[i]);
    }
  }
};

// Second phase of LAMB, where grad is the update direction.
template <class C>
struct LambStep {
  C rate;
  MX_HOST_DEVICE void operator()(const Block<C>& b) const {
    MX_FOR_BLOCK(b) b.new_weight[i] = b.weight[i] - rate * b.grad[i];
  }
};

}  // namespace mxlite::optimizer
