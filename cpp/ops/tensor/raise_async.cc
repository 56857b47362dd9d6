// _raise_async, whose kernel throws, for tests of asynchronous errors.
#include "cpp/ops/registration.h"

namespace mxlite {

static const Registration raise_async_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<NoParams>("_raise_async")
          .doc("Raises an error when the operator runs, so that waiting for the result raises this "
               "error; for tests.")
          .infer([](const NoParams&, std::span<const TensorSpec> in) -> Specs { return {in[0]}; })
          .zero_gradient());
});

}  // namespace mxlite
