// Parameters of weight updates. Fields are in the order of MXNet 1.x's positional arguments.
#pragma once
#include "cpp/base/host_device.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::optimizer {

// Schema fields shared by several updates.
template <class P>
struct Fields {
  static constexpr auto rescale_grad() { return MX_FIELD(rescale_grad, "Factor of the gradient."); }
  static constexpr auto lr() { return MX_REQUIRED_FIELD(lr, "Learning rate."); }
  static constexpr auto clip_gradient() {
    return MX_FIELD(clip_gradient,
                    "Bound of the scaled gradient, which is clipped to [-clip_gradient, "
                    "clip_gradient]; negative: no clipping.");
  }
  static constexpr auto wd() { return MX_FIELD(wd, "Weight decay coefficient."); }
  static constexpr auto epsilon() {
    return MX_FIELD(epsilon, "Small constant that keeps the divisor above 0.").at_least(0);
  }
  static constexpr auto beta1() {
    return MX_FIELD(beta1, "Decay rate of the running mean of gradients.").between(0, 1);
  }
  static constexpr auto beta2() {
    return MX_FIELD(beta2, "Decay rate of the running mean of squared gradients.").between(0, 1);
  }
  static constexpr auto momentum() {
    return MX_FIELD(momentum, "Factor of the previous momentum.");
  }
  static constexpr auto required_t() {
    return MX_REQUIRED_FIELD(t, "Number of this update, counted from 1.").at_least(1);
  }
  static constexpr auto lazy_update() {
    return MX_FIELD(lazy_update,
                    "Whether a row-sparse gradient updates only its stored rows; has no effect on "
                    "dense gradients.");
  }
  static constexpr auto t() {
    return MX_FIELD(t,
                    "Number of this update, counted from 1, for the bias correction of lr; 0: lr "
                    "is already corrected.")
        .at_least(0);
  }
  static constexpr auto eta() {
    return MX_REQUIRED_FIELD(eta, "Factor of the whole step, for learning rate schedules.");
  }
  static constexpr auto gamma1() {
    return MX_FIELD(gamma1, "Decay rate of the running mean of squared gradients.").between(0, 1);
  }
  static constexpr auto clip_weights() {
    return MX_FIELD(clip_weights,
                    "Bound of the new weights, which are clipped to [-clip_weights, clip_weights]; "
                    "negative: no clipping.");
  }
  static constexpr auto bias_correction() {
    return MX_FIELD(bias_correction,
                    "Whether the running means are corrected for their start at 0.");
  }
  static constexpr auto wd_and_scaling() {
    return std::tuple(wd(), rescale_grad(), clip_gradient());
  }
  static constexpr auto required_wd() { return MX_REQUIRED_FIELD(wd, "Weight decay coefficient."); }
};

struct SgdParams {
  double lr = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  bool lazy_update = true;
  MX_FIELDS(SgdParams, Fields<P>::lr(), Fields<P>::wd_and_scaling(), Fields<P>::lazy_update())
};

struct SgdMomParams {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  bool lazy_update = true;
  MX_FIELDS(SgdMomParams, Fields<P>::lr(), Fields<P>::momentum(), Fields<P>::wd_and_scaling(),
            Fields<P>::lazy_update())
};

struct NagParams {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  MX_FIELDS(NagParams, Fields<P>::lr(), Fields<P>::momentum(), Fields<P>::wd_and_scaling())
};

struct AdamParams {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0, rescale_grad = 1,
         clip_gradient = -1;
  bool lazy_update = true;
  int64_t t = 0;
  MX_FIELDS(AdamParams, Fields<P>::lr(), Fields<P>::beta1(), Fields<P>::beta2(),
            Fields<P>::epsilon(), Fields<P>::wd_and_scaling(), Fields<P>::lazy_update(),
            Fields<P>::t())
};

struct AdamWParams {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0, eta = 0, clip_gradient = -1;
  int64_t t = 0;
  MX_FIELDS(AdamWParams, Fields<P>::lr(), Fields<P>::beta1(), Fields<P>::beta2(),
            Fields<P>::epsilon(), Fields<P>::wd(), Fields<P>::eta(), Fields<P>::clip_gradient(),
            Fields<P>::t())
};

struct AdagradParams {
  double lr = 0, epsilon = 1e-7, wd = 0, rescale_grad = 1, clip_gradient = -1;
  MX_FIELDS(AdagradParams, Fields<P>::lr(), Fields<P>::epsilon(), Fields<P>::wd_and_scaling())
};

struct GroupAdagradParams {
  double lr = 0, rescale_grad = 1, clip_gradient = -1, epsilon = 1e-5;
  MX_FIELDS(GroupAdagradParams, Fields<P>::lr(), Fields<P>::rescale_grad(),
            Fields<P>::clip_gradient(), Fields<P>::epsilon())
};

struct RmspropParams {
  double lr = 0, gamma1 = 0.95, epsilon = 1e-8, wd = 0, rescale_grad = 1, clip_gradient = -1,
         clip_weights = -1;
  MX_FIELDS(RmspropParams, Fields<P>::lr(), Fields<P>::gamma1(), Fields<P>::epsilon(),
            Fields<P>::wd_and_scaling(), Fields<P>::clip_weights())
};

struct RmspropAlexParams {
  double lr = 0, gamma1 = 0.95, gamma2 = 0.9, epsilon = 1e-8, wd = 0, rescale_grad = 1,
         clip_gradient = -1, clip_weights = -1;
  MX_FIELDS(RmspropAlexParams, Fields<P>::lr(), Fields<P>::gamma1(),
            MX_FIELD(gamma2, "Factor of the previous step."), Fields<P>::epsilon(),
            Fields<P>::wd_and_scaling(), Fields<P>::clip_weights())
};

struct FtrlParams {
  double lr = 0, lamda1 = 0.01, beta = 1, wd = 0, rescale_grad = 1, clip_gradient = -1;
  MX_FIELDS(FtrlParams, Fields<P>::lr(), MX_FIELD(lamda1, "Coefficient of the L1 penalty."),
            MX_FIELD(beta,
                     "Constant added to the root of the summed squared gradients in the divisor."),
            Fields<P>::wd_and_scaling())
};

struct FtmlParams {
  double lr = 0, beta1 = 0.6, beta2 = 0.999, epsilon = 1e-8;
  int64_t t = 0;
  double wd = 0, rescale_grad = 1, clip_grad = -1;
  MX_FIELDS(FtmlParams, Fields<P>::lr(), Fields<P>::beta1(), Fields<P>::beta2(),
            Fields<P>::epsilon(), Fields<P>::required_t(), Fields<P>::wd(),
            Fields<P>::rescale_grad(),
            MX_FIELD(clip_grad,
                     "Bound of the scaled gradient, which is clipped to [-clip_grad, clip_grad]; "
                     "negative: no clipping."))
};

struct SignParams {
  double lr = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  MX_FIELDS(SignParams, Fields<P>::lr(), Fields<P>::wd_and_scaling())
};

struct SignumParams {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1, wd_lh = 0;
  MX_FIELDS(SignumParams, Fields<P>::lr(), Fields<P>::momentum(), Fields<P>::wd_and_scaling(),
            MX_FIELD(wd_lh,
                     "Coefficient of weight decay that is applied to the weight directly and not "
                     "to the momentum."))
};

// Updates that are not operators in MXNet 1.x, where optimizers combine array operations instead.
struct AdamaxParams {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, wd = 0, rescale_grad = 1, clip_gradient = -1;
  int64_t t = 0;
  MX_FIELDS(
      AdamaxParams, Fields<P>::lr(), Fields<P>::beta1(),
      MX_FIELD(beta2, "Decay rate of the running maximum of absolute gradients.").between(0, 1),
      Fields<P>::wd_and_scaling(), Fields<P>::t())
};

struct NadamParams {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum = 0, next_momentum = 0,
         schedule = 0;
  int64_t t = 0;
  double wd = 0, rescale_grad = 1, clip_gradient = -1;
  MX_FIELDS(NadamParams, Fields<P>::lr(), Fields<P>::beta1(), Fields<P>::beta2(),
            Fields<P>::epsilon(), MX_REQUIRED_FIELD(momentum, "Momentum factor of this update."),
            MX_REQUIRED_FIELD(next_momentum, "Momentum factor of the next update."),
            MX_REQUIRED_FIELD(
                schedule, "Product of the momentum factors of all updates, including this one."),
            Fields<P>::required_t(), Fields<P>::wd_and_scaling())
};

struct AdadeltaParams {
  double rho = 0.9, epsilon = 1e-5, wd = 0, rescale_grad = 1, clip_gradient = -1;
  MX_FIELDS(AdadeltaParams,
            MX_FIELD(rho, "Decay rate of both running means of squares.").between(0, 1),
            Fields<P>::epsilon(), Fields<P>::wd_and_scaling())
};

struct DcasgdParams {
  double lr = 0, momentum = 0, lamda = 0.04, wd = 0, rescale_grad = 1, clip_gradient = -1;
  MX_FIELDS(DcasgdParams, Fields<P>::lr(), Fields<P>::momentum(),
            MX_FIELD(lamda,
                     "Factor of the compensation term, lamda * grad^2 * (weight - previous)."),
            Fields<P>::wd_and_scaling())
};

struct LambParams {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  int64_t t = 0;
  bool bias_correction = true;
  double wd = 0, rescale_grad = 1, clip_gradient = -1;
  MX_FIELDS(LambParams, Fields<P>::beta1(), Fields<P>::beta2(), Fields<P>::epsilon(),
            Fields<P>::required_t(), Fields<P>::bias_correction(), Fields<P>::required_wd(),
            Fields<P>::rescale_grad(), Fields<P>::clip_gradient())
};

struct LambStepParams {
  double lr = 0;
  double lower_bound = -1;
  double upper_bound = -1;
  MX_FIELDS(LambStepParams, MX_REQUIRED_FIELD(lr, "Learning rate."),
            MX_FIELD(lower_bound, "Lower bound of r1; negative: no bound."),
            MX_FIELD(upper_bound, "Upper bound of r1; negative: no bound."))
};

// Params of the complete LAMB update (phases 1 and 2) of one weight.
struct LambUpdateParams {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, wd = 0, rescale_grad = 1,
         lower_bound = -1, upper_bound = -1, clip_gradient = -1;
  bool bias_correction = true;
  int64_t t = 0;
  MX_FIELDS(LambUpdateParams, Fields<P>::lr(), Fields<P>::beta1(), Fields<P>::beta2(),
            Fields<P>::epsilon(), Fields<P>::required_wd(), Fields<P>::rescale_grad(),
            MX_FIELD(lower_bound, "Lower bound of a weight's norm; 0 or less: no bound."),
            MX_FIELD(upper_bound, "Upper bound of a weight's norm; 0 or less: no bound."),
            Fields<P>::clip_gradient(), Fields<P>::bias_correction(), Fields<P>::required_t())
  MX_HOST_DEVICE LambParams first_part() const {
    return {beta1, beta2, epsilon, t, bias_correction, wd, rescale_grad, clip_gradient};
  }
  MX_HOST_DEVICE LambStepParams second_part() const { return {lr, lower_bound, upper_bound}; }
};

struct LarsParams {
  double eta = 0, eps = 0, rescale_grad = 1;
  MX_FIELDS(LarsParams, MX_REQUIRED_FIELD(eta, "Trust coefficient: the factor eta of the formula."),
            MX_REQUIRED_FIELD(eps, "Small constant that keeps the divisor above 0.").at_least(0),
            Fields<P>::rescale_grad())
};

struct NumArraysParams {
  int64_t num_arrays = 0;
  MX_FIELDS(NumArraysParams,
            MX_REQUIRED_FIELD(num_arrays, "Number of arrays.").between(1, kMaxSize))
};

struct FiniteParams {
  bool init_output = true;
  MX_FIELDS(FiniteParams, MX_FIELD(init_output, "Must be True."))
};

struct MultiFiniteParams {
  int64_t num_arrays = 1;
  bool init_output = true;
  MX_FIELDS(MultiFiniteParams, MX_FIELD(num_arrays, "Number of arrays.").between(1, kMaxSize),
            MX_FIELD(init_output, "Must be True."))
};

}  // namespace mxlite::optimizer
