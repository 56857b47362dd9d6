// _raise_async: fails while it runs, so that tests can see what becomes of errors of tasks.
#include "cpp/ops/op_schema.h"
#include "cpp/ops/registration.h"

namespace mxlite {

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<NoParams>("_raise_async")
          .inputs({"data"})
          .doc("Fails when it runs; waiting for the result raises the error.")
          .infer([](const NoParams&, std::span<const TensorSpec> in) -> Specs { return {in[0]}; })
          .zero_gradient()
          .build());
});

}  // namespace mxlite
