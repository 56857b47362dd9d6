#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void shape_array_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  std::copy(in[0].shape.begin(), in[0].shape.end(), out[0].as<int64_t>());
}

void size_array_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  *out[0].as<int64_t>() = in[0].size();
}

}  // namespace

static const Registration shape_array_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&shape_array_native>("shape_array", kStrided);
  ops.cpu_kernel<&size_array_native>("size_array", kStrided);
});

}  // namespace mxlite
