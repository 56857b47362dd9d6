#include "cpp/ops/vision/bipartite_matching.h"

#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kName = "_contrib_bipartite_matching";

Specs infer_bipartite_matching(const BipartiteMatchingParams&, std::span<const TensorSpec> in) {
  const Shape& scores = in[0].shape;
  check_floating(kName, "data", in[0]);
  check_min_ndim(kName, scores, 2);
  Shape rows = scores, columns = scores;
  rows.erase(scores.ndim() - 1);
  columns.erase(scores.ndim() - 2);
  return {{rows, in[0].dtype}, {columns, in[0].dtype}};
}

}  // namespace

static const Registration bipartite_matching_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<BipartiteMatchingParams>(kName)
              .doc("Pairs rows and columns of score matrices greedily, best score first. Returns "
                   "the column of each row and the row of each column, or -1 if there is none. The "
                   "gradient is 0.")
              .shapes("(..., rows, columns) -> (..., rows), (..., columns)")
              .outputs(2)
              .infer(infer_bipartite_matching)
              .zero_gradient());
});

}  // namespace mxlite
