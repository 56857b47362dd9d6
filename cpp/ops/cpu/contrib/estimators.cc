#include "cpp/ops/contrib/estimators.h"

#include <array>

#include "cpp/ops/cpu/pointwise/tables.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace pointwise {
namespace {

void quadratic_native(KernelContext&, const QuadraticParams& p, Inputs in, Outputs out) {
  const Compute c = compute_for_math(in[0].dtype);
  const std::array<double, 3> exact = {p.a, p.b, p.c};
  const std::array<float, 3> single = {static_cast<float>(p.a), static_cast<float>(p.b),
                                       static_cast<float>(p.c)};
  const void* args = c == Compute::kDouble ? static_cast<const void*>(exact.data())
                                           : static_cast<const void*>(single.data());
  run_unary(kUnary<Quadratic>, c, in[0], out[0], args);
}

void gradientmultiplier_native(KernelContext&, const ScalarParams&, Inputs in, Outputs out) {
  if (in[0].data != out[0].data) cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
}

}  // namespace
}  // namespace pointwise

static const Registration estimators_registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace pointwise;  // NOLINT: this folder's own names
  ops.cpu_kernel<&unary_kernel<Round>>("_contrib_round_ste", kStrided);
  ops.cpu_kernel<&unary_kernel<Sign>>("_contrib_sign_ste", kStrided);
  ops.cpu_kernel<&gradientmultiplier_native>("_contrib_gradientmultiplier");
  ops.cpu_kernel<&quadratic_native>("_contrib_quadratic", kStrided);
});

}  // namespace mxlite
