// Parameters of weight updates. Fields are in the order of MXNet 1.x's positional arguments.
#pragma once
#include "cpp/base/host_device.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::optimizer {

// Schema fields shared by several updates.
template <class P>
struct Fields {
  static constexpr auto rescale_grad() {
    return field("rescale_grad", &P::rescale_grad, "Factor on the gradient.");
  }
  static constexpr auto lr() { return required_field("lr", &P::lr, "Learning rate."); }
  static constexpr auto clip_gradient() {
    return field("clip_gradient", &P::clip_gradient,
                 "Limit of the scaled gradient; below 0: none.");
  }
  static constexpr auto wd() { return field("wd", &P::wd, "Weight decay."); }
  static constexpr auto epsilon() {
    return field("epsilon", &P::epsilon, "Keeps the divisor above 0.").at_least(0);
  }
  static constexpr auto beta1() {
    return field("beta1", &P::beta1, "Decay of the mean.").between(0, 1);
  }
  static constexpr auto beta2() {
    return field("beta2", &P::beta2, "Decay of the variance.").between(0, 1);
  }
  static constexpr auto momentum() {
    return field("momentum", &P::momentum, "Factor on the old momentum.");
  }
  static constexpr auto required_t() {
    return required_field("t", &P::t, "Number of this update, from 1.").at_least(1);
  }
  static constexpr auto lazy_update() {
    return field("lazy_update", &P::lazy_update,
                 "For row-sparse gradients; has no effect on dense ones.");
  }
  static constexpr auto t() {
    return field("t", &P::t,
                 "Number of this update, from 1, which corrects lr for the zeros that the means "
                 "start with; 0: lr is corrected already.")
        .at_least(0);
  }
  static constexpr auto eta() { return required_field("eta", &P::eta, "Schedule multiplier."); }
  static constexpr auto gamma1() {
    return field("gamma1", &P::gamma1, "Decay of the squared gradient.").between(0, 1);
  }
  static constexpr auto clip_weights() {
    return field("clip_weights", &P::clip_weights, "Limit of the weights; below 0: none.");
  }
  static constexpr auto bias_correction() {
    return field("bias_correction", &P::bias_correction, "Correct the first steps?");
  }
  static constexpr auto required_wd() { return required_field("wd", &P::wd, "Weight decay."); }
};

struct SgdParams {
  double lr = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  bool lazy_update = true;
  static constexpr auto fields() {
    using F = Fields<SgdParams>;
    return std::tuple(F::lr(), F::wd(), F::rescale_grad(), F::clip_gradient(), F::lazy_update());
  }
};

struct SgdMomParams {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  bool lazy_update = true;
  static constexpr auto fields() {
    using F = Fields<SgdMomParams>;
    return std::tuple(F::lr(), F::momentum(), F::wd(), F::rescale_grad(), F::clip_gradient(),
                      F::lazy_update());
  }
};

struct NagParams {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr auto fields() {
    using F = Fields<NagParams>;
    return std::tuple(F::lr(), F::momentum(), F::wd(), F::rescale_grad(), F::clip_gradient());
  }
};

struct AdamParams {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0, rescale_grad = 1,
         clip_gradient = -1;
  bool lazy_update = true;
  int64_t t = 0;
  static constexpr auto fields() {
    using F = Fields<AdamParams>;
    return std::tuple(F::lr(), F::beta1(), F::beta2(), F::epsilon(), F::wd(), F::rescale_grad(),
                      F::clip_gradient(), F::lazy_update(), F::t());
  }
};

struct AdamWParams {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0, eta = 0, clip_gradient = -1;
  int64_t t = 0;
  static constexpr auto fields() {
    using F = Fields<AdamWParams>;
    return std::tuple(F::lr(), F::beta1(), F::beta2(), F::epsilon(), F::wd(), F::eta(),
                      F::clip_gradient(), F::t());
  }
};

struct AdagradParams {
  double lr = 0, epsilon = 1e-7, wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr auto fields() {
    using F = Fields<AdagradParams>;
    return std::tuple(F::lr(), F::epsilon(), F::wd(), F::rescale_grad(), F::clip_gradient());
  }
};

struct GroupAdagradParams {
  double lr = 0, rescale_grad = 1, clip_gradient = -1, epsilon = 1e-5;
  static constexpr auto fields() {
    using F = Fields<GroupAdagradParams>;
    return std::tuple(F::lr(), F::rescale_grad(), F::clip_gradient(), F::epsilon());
  }
};

struct RmspropParams {
  double lr = 0, gamma1 = 0.95, epsilon = 1e-8, wd = 0, rescale_grad = 1, clip_gradient = -1,
         clip_weights = -1;
  static constexpr auto fields() {
    using F = Fields<RmspropParams>;
    return std::tuple(F::lr(), F::gamma1(), F::epsilon(), F::wd(), F::rescale_grad(),
                      F::clip_gradient(), F::clip_weights());
  }
};

struct RmspropAlexParams {
  double lr = 0, gamma1 = 0.95, gamma2 = 0.9, epsilon = 1e-8, wd = 0, rescale_grad = 1,
         clip_gradient = -1, clip_weights = -1;
  static constexpr auto fields() {
    using F = Fields<RmspropAlexParams>;
    return std::tuple(F::lr(), F::gamma1(),
                      field("gamma2", &RmspropAlexParams::gamma2, "Factor on the old step."),
                      F::epsilon(), F::wd(), F::rescale_grad(), F::clip_gradient(),
                      F::clip_weights());
  }
};

struct FtrlParams {
  double lr = 0, lamda1 = 0.01, beta = 1, wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr auto fields() {
    using F = Fields<FtrlParams>;
    return std::tuple(F::lr(), field("lamda1", &FtrlParams::lamda1, "L1 penalty."),
                      field("beta", &FtrlParams::beta, "Added to the divisor."), F::wd(),
                      F::rescale_grad(), F::clip_gradient());
  }
};

struct FtmlParams {
  double lr = 0, beta1 = 0.6, beta2 = 0.999, epsilon = 1e-8;
  int64_t t = 0;
  double wd = 0, rescale_grad = 1, clip_grad = -1;
  static constexpr auto fields() {
    using F = Fields<FtmlParams>;
    return std::tuple(
        F::lr(), F::beta1(), F::beta2(), F::epsilon(), F::required_t(), F::wd(), F::rescale_grad(),
        field("clip_grad", &FtmlParams::clip_grad, "Limit of the gradient; below 0: none."));
  }
};

struct SignParams {
  double lr = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr auto fields() {
    using F = Fields<SignParams>;
    return std::tuple(F::lr(), F::wd(), F::rescale_grad(), F::clip_gradient());
  }
};

struct SignumParams {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1, wd_lh = 0;
  static constexpr auto fields() {
    using F = Fields<SignumParams>;
    return std::tuple(
        F::lr(), F::momentum(), F::wd(), F::rescale_grad(), F::clip_gradient(),
        field("wd_lh", &SignumParams::wd_lh, "Weight decay apart from the momentum."));
  }
};

// Updates that are not operators in MXNet 1.x, whose optimizers compose them of array operations.
struct AdamaxParams {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, wd = 0, rescale_grad = 1, clip_gradient = -1;
  int64_t t = 0;
  static constexpr auto fields() {
    using F = Fields<AdamaxParams>;
    return std::tuple(
        F::lr(), F::beta1(),
        field("beta2", &AdamaxParams::beta2, "Decay of the largest gradient.").between(0, 1),
        F::wd(), F::rescale_grad(), F::clip_gradient(), F::t());
  }
};

struct NadamParams {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum = 0, next_momentum = 0,
         schedule = 0;
  int64_t t = 0;
  double wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr auto fields() {
    using F = Fields<NadamParams>;
    return std::tuple(
        F::lr(), F::beta1(), F::beta2(), F::epsilon(),
        required_field("momentum", &NadamParams::momentum, "Momentum of this update."),
        required_field("next_momentum", &NadamParams::next_momentum, "Momentum of the next one."),
        required_field("schedule", &NadamParams::schedule, "Product of all momenta so far."),
        F::required_t(), F::wd(), F::rescale_grad(), F::clip_gradient());
  }
};

struct AdadeltaParams {
  double rho = 0.9, epsilon = 1e-5, wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr auto fields() {
    using F = Fields<AdadeltaParams>;
    return std::tuple(
        field("rho", &AdadeltaParams::rho, "Decay of the mean squares.").between(0, 1),
        F::epsilon(), F::wd(), F::rescale_grad(), F::clip_gradient());
  }
};

struct DcasgdParams {
  double lr = 0, momentum = 0, lamda = 0.04, wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr auto fields() {
    using F = Fields<DcasgdParams>;
    return std::tuple(F::lr(), F::momentum(),
                      field("lamda", &DcasgdParams::lamda, "Strength of the compensation."),
                      F::wd(), F::rescale_grad(), F::clip_gradient());
  }
};

struct LambParams {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  int64_t t = 0;
  bool bias_correction = true;
  double wd = 0, rescale_grad = 1, clip_gradient = -1;
  static constexpr auto fields() {
    using F = Fields<LambParams>;
    return std::tuple(F::beta1(), F::beta2(), F::epsilon(), F::required_t(), F::bias_correction(),
                      F::required_wd(), F::rescale_grad(), F::clip_gradient());
  }
};

struct LambStepParams {
  double lr = 0;
  double lower_bound = -1;
  double upper_bound = -1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &LambStepParams::lr, "Learning rate."),
        field("lower_bound", &LambStepParams::lower_bound, "Lower bound of r1; below 0: none."),
        field("upper_bound", &LambStepParams::upper_bound, "Upper bound of r1; below 0: none."));
  }
};

// Params of the complete LAMB update (phases 1 and 2) of one weight.
struct LambUpdateParams {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, wd = 0, rescale_grad = 1,
         lower_bound = -1, upper_bound = -1, clip_gradient = -1;
  bool bias_correction = true;
  int64_t t = 0;
  static constexpr auto fields() {
    using F = Fields<LambUpdateParams>;
    return std::tuple(F::lr(), F::beta1(), F::beta2(), F::epsilon(), F::required_wd(),
                      F::rescale_grad(),
                      field("lower_bound", &LambUpdateParams::lower_bound,
                            "Lower bound of a weight's norm; not above 0: none."),
                      field("upper_bound", &LambUpdateParams::upper_bound,
                            "Upper bound of a weight's norm; not above 0: none."),
                      F::clip_gradient(), F::bias_correction(), F::required_t());
  }
  MX_HOST_DEVICE LambParams first_part() const {
    return {beta1, beta2, epsilon, t, bias_correction, wd, rescale_grad, clip_gradient};
  }
  MX_HOST_DEVICE LambStepParams second_part() const { return {lr, lower_bound, upper_bound}; }
};

struct LarsParams {
  double eta = 0, eps = 0, rescale_grad = 1;
  static constexpr auto fields() {
    using F = Fields<LarsParams>;
    return std::tuple(
        F::eta(), required_field("eps", &LarsParams::eps, "Keeps the divisor above 0.").at_least(0),
        F::rescale_grad());
  }
};

struct NumArraysParams {
  int64_t num_arrays = 0;
  static constexpr auto fields() {
    return std::tuple(required_field("num_arrays", &NumArraysParams::num_arrays, "How many arrays.")
                          .between(1, kMaxSize));
  }
};

struct FiniteParams {
  bool init_output = true;
  static constexpr auto fields() {
    return std::tuple(field("init_output", &FiniteParams::init_output, "Only True is supported."));
  }
};

struct MultiFiniteParams {
  int64_t num_arrays = 1;
  bool init_output = true;
  static constexpr auto fields() {
    return std::tuple(
        field("num_arrays", &MultiFiniteParams::num_arrays, "How many arrays.")
            .between(1, kMaxSize),
        field("init_output", &MultiFiniteParams::init_output, "Only True is supported."));
  }
};

}  // namespace mxlite::optimizer
