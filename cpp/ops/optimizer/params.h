// Parameters of weight updates. Field order is 1.x's positional order.
#pragma once
#include "cpp/base/host_device.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::optimizer {

struct SgdParams {
  double lr = 0;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  bool lazy_update = true;
  static constexpr auto fields() {
    return std::tuple(required_field("lr", &SgdParams::lr, "Learning rate."),
                      field("wd", &SgdParams::wd, "Weight decay."),
                      field("rescale_grad", &SgdParams::rescale_grad, "Factor on the gradient."),
                      field("clip_gradient", &SgdParams::clip_gradient,
                            "Limit of the scaled gradient; below 0: none."),
                      field("lazy_update", &SgdParams::lazy_update,
                            "For row-sparse gradients; has no effect on dense ones."));
  }
};

struct SgdMomParams {
  double lr = 0;
  double momentum = 0;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  bool lazy_update = true;
  static constexpr auto fields() {
    return std::tuple(required_field("lr", &SgdMomParams::lr, "Learning rate."),
                      field("momentum", &SgdMomParams::momentum, "Factor on the old momentum."),
                      field("wd", &SgdMomParams::wd, "Weight decay."),
                      field("rescale_grad", &SgdMomParams::rescale_grad, "Factor on the gradient."),
                      field("clip_gradient", &SgdMomParams::clip_gradient,
                            "Limit of the scaled gradient; below 0: none."),
                      field("lazy_update", &SgdMomParams::lazy_update,
                            "For row-sparse gradients; has no effect on dense ones."));
  }
};

struct NagParams {
  double lr = 0;
  double momentum = 0;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  static constexpr auto fields() {
    return std::tuple(required_field("lr", &NagParams::lr, "Learning rate."),
                      field("momentum", &NagParams::momentum, "Factor on the old momentum."),
                      field("wd", &NagParams::wd, "Weight decay."),
                      field("rescale_grad", &NagParams::rescale_grad, "Factor on the gradient."),
                      field("clip_gradient", &NagParams::clip_gradient,
                            "Limit of the scaled gradient; below 0: none."));
  }
};

struct AdamParams {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  bool lazy_update = true;
  int64_t t = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &AdamParams::lr, "Learning rate."),
        field("beta1", &AdamParams::beta1, "Decay of the mean.").between(0, 1),
        field("beta2", &AdamParams::beta2, "Decay of the variance.").between(0, 1),
        field("epsilon", &AdamParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        field("wd", &AdamParams::wd, "Weight decay."),
        field("rescale_grad", &AdamParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &AdamParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("lazy_update", &AdamParams::lazy_update,
              "For row-sparse gradients; has no effect on dense ones."),
        field("t", &AdamParams::t,
              "Number of this update, from 1, which corrects lr for the zeros that the means start "
              "with; 0: lr is corrected already.")
            .at_least(0));
  }
};

struct AdamWParams {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double wd = 0;
  double eta = 0;
  double clip_gradient = -1;
  int64_t t = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &AdamWParams::lr, "Learning rate."),
        field("beta1", &AdamWParams::beta1, "Decay of the mean.").between(0, 1),
        field("beta2", &AdamWParams::beta2, "Decay of the variance.").between(0, 1),
        field("epsilon", &AdamWParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        field("wd", &AdamWParams::wd, "Weight decay."),
        required_field("eta", &AdamWParams::eta, "Schedule multiplier."),
        field("clip_gradient", &AdamWParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("t", &AdamWParams::t,
              "Number of this update, from 1, which corrects lr for the zeros that the means start "
              "with; 0: lr is corrected already.")
            .at_least(0));
  }
};

struct AdagradParams {
  double lr = 0;
  double epsilon = 1e-7;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &AdagradParams::lr, "Learning rate."),
        field("epsilon", &AdagradParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        field("wd", &AdagradParams::wd, "Weight decay."),
        field("rescale_grad", &AdagradParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &AdagradParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."));
  }
};

struct GroupAdagradParams {
  double lr = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  double epsilon = 1e-5;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &GroupAdagradParams::lr, "Learning rate."),
        field("rescale_grad", &GroupAdagradParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &GroupAdagradParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("epsilon", &GroupAdagradParams::epsilon, "Keeps the divisor above 0.").at_least(0));
  }
};

struct RmspropParams {
  double lr = 0;
  double gamma1 = 0.95;
  double epsilon = 1e-8;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  double clip_weights = -1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &RmspropParams::lr, "Learning rate."),
        field("gamma1", &RmspropParams::gamma1, "Decay of the squared gradient.").between(0, 1),
        field("epsilon", &RmspropParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        field("wd", &RmspropParams::wd, "Weight decay."),
        field("rescale_grad", &RmspropParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &RmspropParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("clip_weights", &RmspropParams::clip_weights,
              "Limit of the weights; below 0: none."));
  }
};

struct RmspropAlexParams {
  double lr = 0;
  double gamma1 = 0.95;
  double gamma2 = 0.9;
  double epsilon = 1e-8;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  double clip_weights = -1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &RmspropAlexParams::lr, "Learning rate."),
        field("gamma1", &RmspropAlexParams::gamma1, "Decay of the squared gradient.").between(0, 1),
        field("gamma2", &RmspropAlexParams::gamma2, "Factor on the old step."),
        field("epsilon", &RmspropAlexParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        field("wd", &RmspropAlexParams::wd, "Weight decay."),
        field("rescale_grad", &RmspropAlexParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &RmspropAlexParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("clip_weights", &RmspropAlexParams::clip_weights,
              "Limit of the weights; below 0: none."));
  }
};

struct FtrlParams {
  double lr = 0;
  double lamda1 = 0.01;
  double beta = 1;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  static constexpr auto fields() {
    return std::tuple(required_field("lr", &FtrlParams::lr, "Learning rate."),
                      field("lamda1", &FtrlParams::lamda1, "L1 penalty."),
                      field("beta", &FtrlParams::beta, "Added to the divisor."),
                      field("wd", &FtrlParams::wd, "Weight decay."),
                      field("rescale_grad", &FtrlParams::rescale_grad, "Factor on the gradient."),
                      field("clip_gradient", &FtrlParams::clip_gradient,
                            "Limit of the scaled gradient; below 0: none."));
  }
};

struct FtmlParams {
  double lr = 0;
  double beta1 = 0.6;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  int64_t t = 0;
  double wd = 0;
  double rescale_grad = 1;
  double clip_grad = -1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &FtmlParams::lr, "Learning rate."),
        field("beta1", &FtmlParams::beta1, "Decay of the mean.").between(0, 1),
        field("beta2", &FtmlParams::beta2, "Decay of the variance.").between(0, 1),
        field("epsilon", &FtmlParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        required_field("t", &FtmlParams::t, "Number of this update, from 1.").at_least(1),
        field("wd", &FtmlParams::wd, "Weight decay."),
        field("rescale_grad", &FtmlParams::rescale_grad, "Factor on the gradient."),
        field("clip_grad", &FtmlParams::clip_grad, "Limit of the gradient; below 0: none."));
  }
};

struct SignParams {
  double lr = 0;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  static constexpr auto fields() {
    return std::tuple(required_field("lr", &SignParams::lr, "Learning rate."),
                      field("wd", &SignParams::wd, "Weight decay."),
                      field("rescale_grad", &SignParams::rescale_grad, "Factor on the gradient."),
                      field("clip_gradient", &SignParams::clip_gradient,
                            "Limit of the scaled gradient; below 0: none."));
  }
};

struct SignumParams {
  double lr = 0;
  double momentum = 0;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  double wd_lh = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &SignumParams::lr, "Learning rate."),
        field("momentum", &SignumParams::momentum, "Factor on the old momentum."),
        field("wd", &SignumParams::wd, "Weight decay."),
        field("rescale_grad", &SignumParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &SignumParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("wd_lh", &SignumParams::wd_lh, "Weight decay apart from the momentum."));
  }
};

// Optimizers that 1.x composes of array operations.
struct AdamaxParams {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  int64_t t = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &AdamaxParams::lr, "Learning rate."),
        field("beta1", &AdamaxParams::beta1, "Decay of the mean.").between(0, 1),
        field("beta2", &AdamaxParams::beta2, "Decay of the largest gradient.").between(0, 1),
        field("wd", &AdamaxParams::wd, "Weight decay."),
        field("rescale_grad", &AdamaxParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &AdamaxParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("t", &AdamaxParams::t,
              "Number of this update, from 1, which corrects lr for the zeros that the means start "
              "with; 0: lr is corrected already.")
            .at_least(0));
  }
};

struct NadamParams {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0;
  double next_momentum = 0;
  double schedule = 0;
  int64_t t = 0;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &NadamParams::lr, "Learning rate."),
        field("beta1", &NadamParams::beta1, "Decay of the mean.").between(0, 1),
        field("beta2", &NadamParams::beta2, "Decay of the variance.").between(0, 1),
        field("epsilon", &NadamParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        required_field("momentum", &NadamParams::momentum, "Momentum of this update."),
        required_field("next_momentum", &NadamParams::next_momentum, "Momentum of the next one."),
        required_field("schedule", &NadamParams::schedule, "Product of all momenta so far."),
        required_field("t", &NadamParams::t, "Number of this update, from 1.").at_least(1),
        field("wd", &NadamParams::wd, "Weight decay."),
        field("rescale_grad", &NadamParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &NadamParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."));
  }
};

struct AdadeltaParams {
  double rho = 0.9;
  double epsilon = 1e-5;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  static constexpr auto fields() {
    return std::tuple(
        field("rho", &AdadeltaParams::rho, "Decay of the mean squares.").between(0, 1),
        field("epsilon", &AdadeltaParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        field("wd", &AdadeltaParams::wd, "Weight decay."),
        field("rescale_grad", &AdadeltaParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &AdadeltaParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."));
  }
};

struct DcasgdParams {
  double lr = 0;
  double momentum = 0;
  double lamda = 0.04;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  static constexpr auto fields() {
    return std::tuple(required_field("lr", &DcasgdParams::lr, "Learning rate."),
                      field("momentum", &DcasgdParams::momentum, "Factor on the old momentum."),
                      field("lamda", &DcasgdParams::lamda, "Strength of the compensation."),
                      field("wd", &DcasgdParams::wd, "Weight decay."),
                      field("rescale_grad", &DcasgdParams::rescale_grad, "Factor on the gradient."),
                      field("clip_gradient", &DcasgdParams::clip_gradient,
                            "Limit of the scaled gradient; below 0: none."));
  }
};

struct LambParams {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  int64_t t = 0;
  bool bias_correction = true;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  static constexpr auto fields() {
    return std::tuple(
        field("beta1", &LambParams::beta1, "Decay of the mean.").between(0, 1),
        field("beta2", &LambParams::beta2, "Decay of the variance.").between(0, 1),
        field("epsilon", &LambParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        required_field("t", &LambParams::t, "Number of this update, from 1.").at_least(1),
        field("bias_correction", &LambParams::bias_correction, "Correct the first steps?"),
        required_field("wd", &LambParams::wd, "Weight decay."),
        field("rescale_grad", &LambParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &LambParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."));
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

// Both parts of LAMB for one weight.
struct LambUpdateParams {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double wd = 0;
  double rescale_grad = 1;
  double lower_bound = -1;
  double upper_bound = -1;
  double clip_gradient = -1;
  bool bias_correction = true;
  int64_t t = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &LambUpdateParams::lr, "Learning rate."),
        field("beta1", &LambUpdateParams::beta1, "Decay of the mean.").between(0, 1),
        field("beta2", &LambUpdateParams::beta2, "Decay of the variance.").between(0, 1),
        field("epsilon", &LambUpdateParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        required_field("wd", &LambUpdateParams::wd, "Weight decay."),
        field("rescale_grad", &LambUpdateParams::rescale_grad, "Factor on the gradient."),
        field("lower_bound", &LambUpdateParams::lower_bound,
              "Lower bound of a weight's norm; not above 0: none."),
        field("upper_bound", &LambUpdateParams::upper_bound,
              "Upper bound of a weight's norm; not above 0: none."),
        field("clip_gradient", &LambUpdateParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("bias_correction", &LambUpdateParams::bias_correction, "Correct the first steps?"),
        required_field("t", &LambUpdateParams::t, "Number of this update, from 1.").at_least(1));
  }
  MX_HOST_DEVICE LambParams first_part() const {
    return {beta1, beta2, epsilon, t, bias_correction, wd, rescale_grad, clip_gradient};
  }
  MX_HOST_DEVICE LambStepParams second_part() const { return {lr, lower_bound, upper_bound}; }
};

struct LarsParams {
  double eta = 0;
  double eps = 0;
  double rescale_grad = 1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("eta", &LarsParams::eta, "Schedule multiplier."),
        required_field("eps", &LarsParams::eps, "Keeps the divisor above 0.").at_least(0),
        field("rescale_grad", &LarsParams::rescale_grad, "Factor on the gradient."));
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
