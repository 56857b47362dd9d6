#include "cpp/base/error.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Fails on the host, like a launch that the device rejects.
void raise_async(KernelContext&, const NoParams&, Inputs, Outputs) {
  fail(ErrorKind::kValue, "_raise_async: fails by design");
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&raise_async>("_raise_async", {.strided_inputs = true});
});

}  // namespace mxlite
