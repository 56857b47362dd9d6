#include "cpp/ops/optimizer/multi_contrib.h"

#include "cpp/ops/optimizer/multi.h"

namespace mxlite {
namespace optimizer {
namespace {

void check_numbers(const char* op, const char* name, size_t given, int64_t weights) {
  MX_CHECK(static_cast<int64_t>(given) == weights, op, ": ", given, " ", name, " given, ", weights,
           " expected, one for each weight");
}

void add_adamw(OpRegistry& ops, const MultiRow& row) {
  using P = MultiAdamWParams;
  ops.add(multi_update<P>(row)
              .output_count([](const P& p, int) { return static_cast<int>(p.num_weights); })
              .infer([row](const P& p, std::span<const TensorSpec> in) {
                check_numbers(row.name, "lrs", p.lrs.size(), p.num_weights);
                check_numbers(row.name, "wds", p.wds.size(), p.num_weights);
                check_numbers(row.name, "etas", p.etas.size(), p.num_weights);
                return infer_groups(row, p.num_weights, 1, ", and rescale_grad", in);
              })
              .build());
}

void add_lamb(OpRegistry& ops, const MultiRow& row) {
  using P = MultiLambParams;
  ops.add(multi_update<P>(row)
              .output_count([](const P& p, int) { return static_cast<int>(p.num_tensors); })
              .infer([row](const P& p, std::span<const TensorSpec> in) {
                check_numbers(row.name, "learning_rates", p.learning_rates.size(), p.num_tensors);
                check_numbers(row.name, "wds", p.wds.size(), p.num_tensors);
                check_numbers(row.name, "step_count", static_cast<size_t>(p.step_count.ndim()),
                              p.num_tensors);
                return infer_groups(row, p.num_tensors, 0, "", in);
              })
              .build());
}

}  // namespace
}  // namespace optimizer

void register_multi_contrib(OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: this folder's own names
  const std::vector<std::string> plain = {"weight", "grad", "mean", "var"};
  std::vector<std::string> mixed = plain;
  mixed.emplace_back("weight32");
  add_adamw(ops, {"_multi_adamw_update",
                  "_adamw_update of many weights; data is weight, grad, mean, var for each, then "
                  "rescale_grad.",
                  plain, false});
  add_adamw(ops, {"_multi_mp_adamw_update",
                  "_mp_adamw_update of many weights; data is weight, grad, mean, var, weight32 for "
                  "each, then rescale_grad.",
                  mixed, true});
  add_lamb(ops, {"_multi_lamb_update",
                 "Both phases of LAMB for many weights; data is weight, grad, mean, var for each.",
                 plain, false});
  add_lamb(ops, {"_multi_mp_lamb_update",
                 "Both phases of LAMB for many weights; data is weight, grad, mean, var, weight32 "
                 "for each.",
                 mixed, true});
}

}  // namespace mxlite
