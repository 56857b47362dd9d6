// The table of element-wise weight updates. One row generates the schemas, CPU kernels and CUDA
// kernels of an update, of its mixed-precision form and of its forms over many weights.
#pragma once
#include <array>

#include "cpp/ops/optimizer/params.h"
#include "cpp/ops/storage_traits.h"

namespace mxlite::optimizer {

// The formulas are in cpp/ops/cpu/optimizer/rules.h.
template <class C>
struct Sgd;
template <class C>
struct SgdMom;
template <class C>
struct Nag;
template <class C>
struct Adam;
template <class C>
struct AdamW;
template <class C>
struct Adagrad;
template <class C>
struct Rmsprop;
template <class C>
struct RmspropAlex;
template <class C>
struct Ftrl;
template <class C>
struct Ftml;
template <class C>
struct SignSgd;
template <class C>
struct Signum;
template <class C>
struct Adamax;
template <class C>
struct Nadam;
template <class C>
struct Adadelta;
template <class C>
struct Dcasgd;
template <class C>
struct DcasgdMom;

template <class P>
concept HasScale = requires(P p) {
  p.rescale_grad;
};

// One row. The operator `name` takes weight, grad and the states. `mixed_name` has float32 states,
// followed by the float32 weight; null: mixed precision exists only for many weights. The forms
// over many weights are named "multi_" + name (in MXNet 1.x, too) or "_multi_" + name, with "mp_"
// before `name` if mixed. kPreloaded: MXNet 1.x also has separate operators over many weights that
// read learning rates and weight decays from arrays.
template <class P, template <class> class R, size_t kStates, bool kPreloaded = false>
struct Update {
  const char* name;
  const char* doc;
  std::array<const char*, kStates> states;
  const char* mixed_name = nullptr;
  RowUpdate row_update = {};
  // Says whether the factor on the gradient is an input instead of a parameter.
  static constexpr bool kScaleIsInput = !HasScale<P>;
};

// Calls fn(Update) for every row.
void for_each_update(auto&& fn) {
  fn(Update<SgdParams, Sgd, 0, true>{"sgd_update",
                                     "SGD: weight -= lr * (grad + wd * weight).",
                                     {},
                                     "mp_sgd_update",
                                     {"_rows_sgd_update"}});
  fn(Update<SgdMomParams, SgdMom, 1, true>{
      "sgd_mom_update",
      "SGD with momentum: mom = momentum * mom - lr * (grad + wd * weight); weight += mom.",
      {"mom"},
      "mp_sgd_mom_update",
      {"_rows_sgd_mom_update"}});
  fn(Update<NagParams, Nag, 1>{"nag_mom_update",
                               "SGD with Nesterov's momentum: step = lr * (grad + wd * weight); "
                               "mom = momentum * mom - step; weight += momentum * mom - step.",
                               {"mom"},
                               "mp_nag_mom_update"});
  fn(Update<AdamParams, Adam, 2>{
      "adam_update",
      "Adam: weight -= lr * mean / (sqrt(var) + epsilon), where mean and var are running means of "
      "the gradient and its square. The bias correction of lr is applied only if t is given.",
      {"mean", "var"},
      nullptr,
      {"_rows_adam_update"}});
  fn(Update<AdamWParams, AdamW, 2>{
      "_adamw_update",
      "AdamW: weight -= eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight). If the input "
      "rescale_grad, a factor of the gradient, is 0 or not finite, nothing changes.",
      {"mean", "var"},
      "_mp_adamw_update"});
  fn(Update<AdagradParams, Adagrad, 1>{
      "_sparse_adagrad_update",
      "AdaGrad: history += grad^2; weight -= lr * (grad / sqrt(history + epsilon) + wd * weight).",
      {"history"},
      nullptr,
      {"_rows_adagrad_update"}});
  fn(Update<RmspropParams, Rmsprop, 1>{
      "rmsprop_update",
      "RMSProp (Tieleman): weight -= lr * grad / sqrt(n + epsilon), where n is the running mean of "
      "squared gradients.",
      {"n"}});
  fn(Update<RmspropAlexParams, RmspropAlex, 3>{
      "rmspropalex_update",
      "Centered RMSProp (Graves): delta = gamma2 * delta - lr * grad / sqrt(n - g^2 + epsilon); "
      "weight += delta, where n and g are the running means of squared gradients and of gradients.",
      {"n", "g", "delta"}});
  fn(Update<FtrlParams, Ftrl, 2>{
      "ftrl_update",
      "FTRL (follow the regularized leader) with the states z and n, the sum of squared gradients.",
      {"z", "n"},
      nullptr,
      {.op = "_rows_ftrl_update", .sparse_weight = true}});
  fn(Update<FtmlParams, Ftml, 3>{"ftml_update",
                                 "FTML (follow the moving leader) with the states d, v and z.",
                                 {"d", "v", "z"}});
  fn(Update<SignParams, SignSgd, 0>{
      "signsgd_update", "SignSGD: weight -= lr * (sign(grad) + wd * weight).", {}});
  fn(Update<SignumParams, Signum, 1>{
      "signum_update",
      "Signum: mom = momentum * mom - (1 - momentum) * (grad + wd * weight); weight = (1 - lr * "
      "wd_lh) * weight + lr * sign(mom).",
      {"mom"}});
  fn(Update<AdamaxParams, Adamax, 2>{
      "_adamax_update",
      "AdaMax: weight -= lr * mean / largest, where mean is the running mean of gradients and "
      "largest the running maximum of their absolute values.",
      {"mean", "largest"}});
  fn(Update<NadamParams, Nadam, 2>{
      "_nadam_update", "Nadam: Adam with Nesterov's momentum.", {"mean", "var"}});
  fn(Update<AdadeltaParams, Adadelta, 2>{
      "_adadelta_update",
      "AdaDelta: weight -= sqrt(steps + epsilon) / sqrt(squares + epsilon) * grad + wd * weight, "
      "where squares and steps are running means of the squared gradients and of the squared "
      "steps.",
      {"squares", "steps"}});
  fn(Update<DcasgdParams, Dcasgd, 1>{"_dcasgd_update",
                                     "DCASGD: SGD that compensates for delayed gradients; previous "
                                     "is the weight at the previous update.",
                                     {"previous"}});
  fn(Update<DcasgdParams, DcasgdMom, 2>{"_dcasgd_mom_update",
                                        "DCASGD with momentum: compensates for delayed gradients; "
                                        "previous is the weight at the previous update.",
                                        {"mom", "previous"}});
}

}  // namespace mxlite::optimizer
