// Weight updates that touch only the rows of a row-sparse gradient (1.x: lazy_update). Rows with
// equal indices are added up first, so indices may repeat and need not be sorted.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/optimizer/params.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/sparse/sparse.h"

namespace mxlite {
namespace sparse {
namespace {

template <class P>
void add_update(OpRegistry& ops, const std::string& name, std::vector<std::string> states,
                bool row_states = false) {
  std::vector<std::string> inputs = {"weight", "values", "indices"};
  inputs.insert(inputs.end(), states.begin(), states.end());
  std::vector<int> mutated;
  for (size_t i = 3; i < inputs.size(); ++i) mutated.push_back(static_cast<int>(i));
  ops.add(OpBuilder<P>(name)
              .inputs(inputs)
              .doc("The update of the same name for dense arrays, applied to the rows of weight "
                   "that indices lists; values holds the gradients of these rows. All other rows "
                   "stay unchanged.")
              .infer([name, inputs, row_states](const P&, std::span<const TensorSpec> in) -> Specs {
                const TensorSpec& weight = in[0];
                MX_CHECK_DTYPE(is_floating(weight.dtype), name,
                               ": weight must be of a floating type, got ", weight.dtype);
                check_index(name.c_str(), "indices", in[2]);
                Shape rows = weight.shape;
                MX_CHECK_SHAPE(rows.ndim() >= 1, name, ": weight must have rows, got shape ", rows);
                rows[0] = in[2].shape[0];
                MX_CHECK_SHAPE(may_equal(in[1].shape, rows), name, ": gradient must have shape ",
                               rows, ", got ", in[1].shape);
                for (size_t i = 1; i < in.size(); ++i) {
                  if (i == 2) continue;
                  MX_CHECK_DTYPE(in[i].dtype == weight.dtype, name, ": ", inputs[i],
                                 " must be of dtype ", weight.dtype, ", got ", in[i].dtype);
                  const bool fits = row_states
                                        ? may_equal(count_elements(in[i].shape), weight.shape[0])
                                        : may_equal(in[i].shape, weight.shape);
                  MX_CHECK_SHAPE(
                      i == 1 || fits, name, ": ", inputs[i],
                      row_states ? " must have one number per row of" : " must have the shape of",
                      " the weight, of shape ", weight.shape, ", got ", in[i].shape);
                }
                return {weight};
              })
              .mutates(mutated)
              .inplace(0, 0));
}

}  // namespace
}  // namespace sparse

static const Registration updates_registration(Stage::kSchemas, [](OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: the parameters of the dense updates
  sparse::add_update<SgdParams>(ops, "_rows_sgd_update", {});
  sparse::add_update<SgdMomParams>(ops, "_rows_sgd_mom_update", {"mom"});
  sparse::add_update<AdamParams>(ops, "_rows_adam_update", {"mean", "var"});
  sparse::add_update<FtrlParams>(ops, "_rows_ftrl_update", {"z", "n"});
  sparse::add_update<AdagradParams>(ops, "_rows_adagrad_update", {"history"});
  sparse::add_update<GroupAdagradParams>(ops, "_rows_group_adagrad_update", {"history"}, true);
});

}  // namespace mxlite
