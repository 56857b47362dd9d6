#include "cpp/base/error.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void raise_async_native(KernelContext&, const NoParams&, Inputs, Outputs) {
  fail(ErrorKind::kValue, "_raise_async: fails by design");
}

}  // namespace

static const Registration raise_async_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&raise_async_native>("_raise_async", {.strided_inputs = true, .inline_ok = false});
});

}  // namespace mxlite
