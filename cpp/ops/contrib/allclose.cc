#include "cpp/ops/contrib/allclose.h"

#include "cpp/ops/pointwise/rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {

static const Registration allclose_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<AllcloseParams>("_contrib_allclose")
              .inputs({"a", "b"})
              .doc("Returns 1 if abs(a - b) <= atol + rtol * abs(b) for all elements, else 0; the "
                   "output is a uint8 scalar.")
              .shapes("equal shapes -> ()")
              .infer([](const AllcloseParams& p, std::span<const TensorSpec> in) -> Specs {
                same_shapes("_contrib_allclose")(p, in);
                return {{Shape{}, DType::kUInt8}};
              })
              .zero_gradient());
});

}  // namespace mxlite
