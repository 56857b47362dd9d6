// Parameters of weight updates. Field order is 1.x's positional order.
#pragma once
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
              "For row-sparse gradients; has no effect on dense ones."));
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
  static constexpr auto fields() {
    return std::tuple(
        required_field("lr", &AdamWParams::lr, "Learning rate."),
        field("beta1", &AdamWParams::beta1, "Decay of the mean.").between(0, 1),
        field("beta2", &AdamWParams::beta2, "Decay of the variance.").between(0, 1),
        field("epsilon", &AdamWParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        field("wd", &AdamWParams::wd, "Weight decay."),
        required_field("eta", &AdamWParams::eta, "Schedule multiplier."),
        field("clip_gradient", &AdamWParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."));
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

struct MultiSgdParams {
  std::vector<double> lrs;
  std::vector<double> wds;
  double rescale_grad = 1;
  double clip_gradient = -1;
  int64_t num_weights = 1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lrs", &MultiSgdParams::lrs, "Learning rate of each weight."),
        required_field("wds", &MultiSgdParams::wds, "Weight decay of each weight."),
        field("rescale_grad", &MultiSgdParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &MultiSgdParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("num_weights", &MultiSgdParams::num_weights, "How many weights.")
            .between(1, kMaxSize));
  }
};

struct MultiSgdMomParams {
  std::vector<double> lrs;
  std::vector<double> wds;
  double momentum = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  int64_t num_weights = 1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lrs", &MultiSgdMomParams::lrs, "Learning rate of each weight."),
        required_field("wds", &MultiSgdMomParams::wds, "Weight decay of each weight."),
        field("momentum", &MultiSgdMomParams::momentum, "Factor on the old momentum."),
        field("rescale_grad", &MultiSgdMomParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &MultiSgdMomParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("num_weights", &MultiSgdMomParams::num_weights, "How many weights.")
            .between(1, kMaxSize));
  }
};

struct PreloadedSgdParams {
  double rescale_grad = 1;
  double clip_gradient = -1;
  int64_t num_weights = 1;
  static constexpr auto fields() {
    return std::tuple(
        field("rescale_grad", &PreloadedSgdParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &PreloadedSgdParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("num_weights", &PreloadedSgdParams::num_weights, "How many weights.")
            .between(1, kMaxSize));
  }
};

struct PreloadedSgdMomParams {
  double momentum = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
  int64_t num_weights = 1;
  static constexpr auto fields() {
    return std::tuple(
        field("momentum", &PreloadedSgdMomParams::momentum, "Factor on the old momentum."),
        field("rescale_grad", &PreloadedSgdMomParams::rescale_grad, "Factor on the gradient."),
        field("clip_gradient", &PreloadedSgdMomParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("num_weights", &PreloadedSgdMomParams::num_weights, "How many weights.")
            .between(1, kMaxSize));
  }
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
