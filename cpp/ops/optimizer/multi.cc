// Updates of many weights in one call, and the sums and tests over many arrays that go with them.
#include "cpp/ops/optimizer/multi.h"

#include "cpp/ops/optimizer/params.h"

namespace mxlite {
namespace optimizer {
namespace {

// Number of arrays after the weights: learning rates and weight decays, unless p lists them.
template <class P>
size_t rate_arrays(const MultiRow& row, const P& p, size_t weights) {
  if constexpr (requires { p.lrs; }) {
    MX_CHECK(p.lrs.size() == weights && p.wds.size() == weights, row.name, ": ", p.lrs.size(),
             " lrs and ", p.wds.size(), " wds given, ", weights, " of each expected");
    return 0;
  } else {
    return 2;
  }
}

template <class P>
void add_multi(OpRegistry& ops, const MultiRow& row) {
  ops.add(multi_update<P>(row)
              .output_count([](const P& p, int) { return static_cast<int>(p.num_weights); })
              .infer([row](const P& p, std::span<const TensorSpec> in) {
                const size_t extra = rate_arrays(row, p, static_cast<size_t>(p.num_weights));
                return infer_groups(row, p.num_weights, extra, extra ? ", and lrs and wds" : "",
                                    in);
              })
              .build());
}

template <class Listed, class Preloaded>
void add_family(OpRegistry& ops, const char* name, const char* preloaded_name, const char* doc,
                const std::vector<std::string>& group, bool mixed) {
  add_multi<Listed>(ops, {name, doc, group, mixed});
  add_multi<Preloaded>(ops, {preloaded_name, doc, group, mixed});
}

template <class P>
void check_count(const char* op, const P& p, size_t given) {
  MX_CHECK(p.num_arrays == static_cast<int64_t>(given), op, ": ", given, " arrays and num_arrays ",
           p.num_arrays, " given, equal numbers expected");
}

template <class P>
void check_init(const char* op, const P& p) {
  MX_CHECK_KIND(p.init_output, ErrorKind::kNotSupported, op,
                ": init_output=False is not supported; combine the results instead");
}

Specs infer_lars(const LarsParams&, std::span<const TensorSpec> in) {
  for (size_t i = 1; i < in.size(); ++i)
    MX_CHECK_SHAPE(in[i].shape == in[0].shape, "multi_lars: arrays of shape ", in[0].shape, " and ",
                   in[i].shape, " given, equal shapes expected");
  return {{in[0].shape, DType::kFloat32}};
}

const TensorSpec kFlag{Shape{1}, DType::kFloat32};

}  // namespace

Specs infer_groups(const MultiRow& row, int64_t weights, size_t extra, const char* extra_text,
                   std::span<const TensorSpec> in) {
  const size_t group = row.group.size(), grouped = static_cast<size_t>(weights) * group;
  MX_CHECK(in.size() == grouped + extra, row.name, ": ", in.size(), " arrays given, ",
           grouped + extra, " expected (", group, " for each of ", weights, " weights", extra_text,
           ")");
  Specs out;
  for (size_t i = 0; i < grouped; ++i) {
    const TensorSpec &weight = in[i / group * group], &spec = in[i];
    const bool single = row.mixed && i % group > 1;
    MX_CHECK_SHAPE(spec.shape == weight.shape, row.name, ": ", row.group[i % group], " ", i / group,
                   " of shape ", spec.shape, " given, the weight's shape ", weight.shape,
                   " expected");
    const DType expected = single ? DType::kFloat32 : weight.dtype;
    MX_CHECK_DTYPE(spec.dtype == expected && is_floating(spec.dtype), row.name, ": ",
                   row.group[i % group], " ", i / group, " of dtype ", spec.dtype, " given, ",
                   is_floating(expected) ? expected : DType::kFloat32, " expected");
    if (i % group == 0) out.push_back(weight);
  }
  for (size_t i = grouped; i < in.size(); ++i) {
    const int64_t numbers = extra == 1 ? 1 : weights;
    MX_CHECK_SHAPE(in[i].shape.size() == numbers, row.name, ": an array of shape ", in[i].shape,
                   " given after the weights, ", numbers, " numbers expected");
  }
  return out;
}

}  // namespace optimizer

void register_multi_contrib(OpRegistry&);

void register_multi_updates(OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: this folder's own names
  register_multi_contrib(ops);
  add_family<MultiSgdParams, PreloadedSgdParams>(ops, "multi_sgd_update",
                                                 "preloaded_multi_sgd_update",
                                                 "sgd_update of many weights; data is weight, grad "
                                                 "for each.",
                                                 {"weight", "grad"}, false);
  add_family<MultiSgdMomParams, PreloadedSgdMomParams>(
      ops, "multi_sgd_mom_update", "preloaded_multi_sgd_mom_update",
      "sgd_mom_update of many weights; data is weight, grad, mom for each.",
      {"weight", "grad", "mom"}, false);
  add_family<MultiSgdParams, PreloadedSgdParams>(
      ops, "multi_mp_sgd_update", "preloaded_multi_mp_sgd_update",
      "mp_sgd_update of many weights; data is weight, grad, weight32 for each.",
      {"weight", "grad", "weight32"}, true);
  add_family<MultiSgdMomParams, PreloadedSgdMomParams>(
      ops, "multi_mp_sgd_mom_update", "preloaded_multi_mp_sgd_mom_update",
      "mp_sgd_mom_update of many weights; data is weight, grad, mom, weight32 for each.",
      {"weight", "grad", "mom", "weight32"}, true);
  ops.add(OpBuilder<NumArraysParams>("multi_sum_sq")
              .variadic("data")
              .doc("Sum of the squares of each array, as one float32 array.")
              .infer([](const NumArraysParams& p, std::span<const TensorSpec> in) -> Specs {
                check_count("multi_sum_sq", p, in.size());
                return {{Shape{p.num_arrays}, DType::kFloat32}};
              })
              .build());
  ops.add(
      OpBuilder<LarsParams>("multi_lars")
          .inputs({"lrs", "weights_sum_sq", "grads_sum_sq", "wds"})
          .doc("LARS learning rates: lr * eta * |w| / (|g| * rescale_grad + wd * |w| + eps), or "
               "lr where a norm is 0.")
          .infer(infer_lars)
          .build());
  ops.add(OpBuilder<NumArraysParams>("reset_arrays")
              .variadic("data")
              .doc("Sets all arrays to 0.")
              .outputs(0)
              .mutates_every(1, {0})
              .infer([](const NumArraysParams& p, std::span<const TensorSpec> in) -> Specs {
                check_count("reset_arrays", p, in.size());
                return {};
              })
              .build());
  ops.add(OpBuilder<FiniteParams>("all_finite")
              .inputs({"data"})
              .doc("1 if no element is NaN or infinite, else 0.")
              .infer([](const FiniteParams& p, std::span<const TensorSpec>) -> Specs {
                check_init("all_finite", p);
                return {kFlag};
              })
              .zero_gradient()
              .build());
  ops.add(OpBuilder<MultiFiniteParams>("multi_all_finite")
              .variadic("data")
              .doc("1 if no element of any array is NaN or infinite, else 0.")
              .infer([](const MultiFiniteParams& p, std::span<const TensorSpec> in) -> Specs {
                check_init("multi_all_finite", p);
                check_count("multi_all_finite", p, in.size());
                return {kFlag};
              })
              .zero_gradient()
              .build());
}

}  // namespace mxlite
