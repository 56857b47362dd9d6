// Log likelihood of a Hawkes process: for each of N samples with up to T events, lags[i, j] is the
// time since the preceding event and marks[i, j] in [0, K) its kind. The second output is the state
// at the end, which is the initial state for a continuation of the process.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kHawkesOp = "_contrib_hawkesll";
const std::vector<std::string> kInputs = {"lda",  "alpha", "beta",         "state",
                                          "lags", "marks", "valid_length", "max_time"};
constexpr size_t kMarks = 5;

Specs infer_hawkes(const NoParams&, std::span<const TensorSpec> in) {
  const Shape &lda = in[0].shape, &lags = in[4].shape;
  MX_CHECK_DTYPE(is_floating(in[0].dtype), kHawkesOp,
                 ": lda must be of dtype float16, bfloat16, float32 or float64, got ", in[0].dtype);
  MX_CHECK_SHAPE(lda.ndim() == 2, kHawkesOp, ": lda must have shape (samples, kinds), got ", lda);
  MX_CHECK_SHAPE(lags.ndim() == 2, kHawkesOp, ": lags must have shape (samples, events), got ",
                 lags);
  const Shape kinds{lda[1]}, samples{lda[0]}, events{lda[0], lags[1]};
  const Shape expected[] = {lda, kinds, kinds, lda, events, events, samples, samples};
  for (size_t i = 0; i < 8; ++i) {
    MX_CHECK_SHAPE(may_equal(in[i].shape, expected[i]), kHawkesOp, ": ", kInputs[i],
                   " must have shape ", expected[i], ", got ", in[i].shape);
    if (i == kMarks)
      MX_CHECK_DTYPE(!is_floating(in[i].dtype) && in[i].dtype != DType::kBool, kHawkesOp,
                     ": marks must be of an integer type, got ", in[i].dtype);
    else
      MX_CHECK_DTYPE(in[i].dtype == in[0].dtype, kHawkesOp, ": ", kInputs[i],
                     " must have the dtype of lda, ", in[0].dtype, ", got ", in[i].dtype);
  }
  return Specs{TensorSpec{samples, in[0].dtype}, in[3]};
}

std::vector<ValueRef> hawkes_gradient(GradBuilder& g) {
  std::vector<ValueRef> inputs{g.output_grad(0), g.output_grad(1)};
  for (int i = 0; i < 8; ++i) inputs.push_back(g.input(i));
  const auto some = g.emit_all("_hawkesll_backward", inputs, g.params_ref());
  std::vector<ValueRef> grads(8);  // marks and valid_length get no gradient
  for (size_t i = 0; i < kMarks; ++i) grads[i] = some[i];
  grads[7] = some[5];
  return grads;
}

}  // namespace

static const Registration hawkes_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<NoParams>(kHawkesOp)
              .doc("Log likelihoods of N marked Hawkes processes with K kinds of events, and their "
                   "states at max_time. lda is the background intensity, alpha the branching "
                   "ratio, beta the decay; lags are the times between events, marks their kinds.")
              .shapes("lda, state: (N, K), alpha, beta: (K,), lags, marks: (N, T), valid_length, "
                      "max_time: (N,) -> (N,), (N, K)")
              .inputs(kInputs)
              .outputs(2)
              .infer(infer_hawkes)
              .gradient(hawkes_gradient)
              .amp(AmpClass::kFloat32)
              .symbol({.output_names = {"output", "out_state"}}));
  std::vector<std::string> backward_inputs = {"likelihood_grad", "state_grad"};
  backward_inputs.insert(backward_inputs.end(), kInputs.begin(), kInputs.end());
  ops.add(OpBuilder<NoParams>("_hawkesll_backward")
              .internal()
              .doc("Gradients of hawkesll for lda, alpha, beta, state, lags and max_time.")
              .inputs(std::move(backward_inputs))
              .outputs(6)
              .infer([](const NoParams&, std::span<const TensorSpec> in) {
                return Specs{in[2], in[3], in[4], in[5], in[6], in[9]};
              }));
});

}  // namespace mxlite
