// Shared checks of updates over many weights; operators for sums and tests over many arrays.
#include "cpp/ops/optimizer/multi.h"

#include <algorithm>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace optimizer {

std::vector<double> numbers_of_weights(const MultiRow& row, const char* name,
                                       const AttrValue& value, int64_t weights, bool listed) {
  std::vector<double> numbers;
  const auto* ints = std::get_if<OptionalInts>(&value);  // used for lists that are too long for a
                                                         // Shape
  if (ints && std::all_of(ints->begin(), ints->end(), [](auto& x) { return x.has_value(); }))
    for (const auto& x : *ints) numbers.push_back(static_cast<double>(*x));
  else
    numbers = attr_to_doubles(value);
  const auto count = static_cast<size_t>(weights);
  if (numbers.size() == 1 && !listed) numbers.resize(count, numbers[0]);
  MX_CHECK(numbers.size() == count, row.name, ": ", name, " must have ", count,
           " numbers, one for each weight, got ", numbers.size());
  return numbers;
}

std::vector<std::string> input_names(const MultiRow& row, int64_t weights) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < weights; ++i)
    for (const std::string& part : row.group) names.push_back(str(part, "_", i));
  if (row.preloaded) names.insert(names.end(), {"lrs", "wds"});
  return names;
}

int64_t checked_weights(const MultiRow& row, const AttrValue& value, bool given) {
  if (!given) return 1;
  try {
    check_attr_range(AttrValue(attr_to_int(value)), {1, static_cast<double>(kMaxWeights)});
    return attr_to_int(value);
  } catch (const AttrMismatch& m) {
    throw_attr_mismatch(row.name, row.count_name, value, m);
  }
}

bool is_empty_list(const AttrValue& value) {
  if (const auto* ints = std::get_if<OptionalInts>(&value)) return ints->empty();
  if (const auto* shape = std::get_if<Shape>(&value)) return shape->ndim() == 0;
  const auto* numbers = std::get_if<std::vector<double>>(&value);
  return numbers && numbers->empty();
}

std::string extra_doc(const MultiRow& row) {
  if (row.preloaded) return "";
  std::string fields;
  for (const std::string& name : row.loaded) fields += (fields.empty() ? "" : ", ") + name;
  return str(row.needs_scale ? " Then rescale_grad, or numbers and rescale_grad"
                             : " Then nothing, or scale, or numbers and scale",
             ": numbers has rows of ", fields,
             " with a column for each weight, in place of these parameters; the other is one "
             "number, a factor on all gradients. Nothing changes if the factor is 0 or not "
             "finite.");
}

namespace {

// Throws if a loaded field is passed both as a parameter and in an array, or if a required one is
// missing.
void check_loaded(const MultiRow& row, bool loads, unsigned given) {
  for (size_t k = 0; k < row.loaded.size(); ++k) {
    const bool is_given = given >> k & 1, is_required = row.required_loaded >> k & 1;
    const std::string* const renamed = row.new_name(row.loaded[k]);
    const std::string& name = renamed ? *renamed : row.loaded[k];
    MX_CHECK(!loads || !is_given, row.name, ": ", name,
             " must be given either as a parameter or in an array of numbers after the weights, "
             "got both");
    if (!loads && !is_given && is_required) throw_missing_param(row.name, name);
  }
}

}  // namespace

Specs infer_groups(const MultiRow& row, int64_t weights, unsigned given_loaded,
                   std::span<const TensorSpec> in) {
  const size_t group = row.group.size(), grouped = static_cast<size_t>(weights) * group;
  const size_t fewest = grouped + (row.preloaded ? 2 : row.needs_scale ? 1 : 0);
  MX_CHECK(in.size() >= grouped && row.takes(in.size() - grouped), row.name,
           ": the number of arrays must be ", fewest, " (", group, " for each of ", weights,
           " weights",
           row.preloaded     ? ", and lrs and wds"
           : row.needs_scale ? ", and rescale_grad"
                             : "",
           "), got ", in.size());
  const bool loads = MultiRow::loads(in.size() - grouped);
  if (!row.preloaded) check_loaded(row, loads, given_loaded);
  Specs out;
  for (size_t i = 0; i < grouped; ++i) {
    const TensorSpec &weight = in[i / group * group], &spec = in[i];
    const bool single = row.mixed && i % group > 1;
    MX_CHECK_SHAPE(may_equal(spec.shape, weight.shape), row.name, ": ", row.group[i % group], " ",
                   i / group, " must have the weight's shape ", weight.shape, ", got ", spec.shape);
    const DType expected = single ? DType::kFloat32 : weight.dtype;
    MX_CHECK_DTYPE(spec.dtype == expected && is_floating(spec.dtype), row.name, ": ",
                   row.group[i % group], " ", i / group, " must be of dtype ",
                   is_floating(expected) ? expected : DType::kFloat32, ", got ", spec.dtype);
    if (i % group == 0) out.push_back(weight);
  }
  for (size_t i = grouped; i < in.size(); ++i) {
    const bool is_scale = !row.preloaded && i + 1 == in.size();
    const auto fields = static_cast<int64_t>(row.preloaded ? 1 : row.loaded.size());
    const int64_t expected_count = is_scale ? 1 : fields * weights;
    MX_CHECK_SHAPE(may_equal(count_elements(in[i].shape), expected_count), row.name,
                   ": an array after the weights must have ", expected_count,
                   " numbers, got shape ", in[i].shape);
  }
  return out;
}

namespace {

template <class P>
void check_count(const char* op, const P& p, size_t given) {
  MX_CHECK(p.num_arrays == static_cast<int64_t>(given), op,
           ": the number of arrays must be num_arrays, ", p.num_arrays, ", got ", given);
}

template <class P>
std::vector<std::string> array_names(const P& p) {
  return input_names({.name = "", .doc = "", .group = {"array"}}, p.num_arrays);
}

template <class P>
void check_init(const char* op, const P& p) {
  MX_CHECK_KIND(p.init_output, ErrorKind::kNotSupported, op,
                ": init_output=False is not supported; combine the results instead");
}

Specs infer_lars(const LarsParams&, std::span<const TensorSpec> in) {
  for (size_t i = 1; i < in.size(); ++i)
    MX_CHECK_SHAPE(may_equal(in[i].shape, in[0].shape),
                   "multi_lars: arrays must have equal shapes, got ", in[0].shape, " and ",
                   in[i].shape);
  return {{in[0].shape, DType::kFloat32}};
}

const TensorSpec kFlag{Shape{1}, DType::kFloat32};
void refine_flag(const void*, PartialShapes& shapes) { shapes.refine_output(0, kFlag.shape); }

template <class P, template <class> class R, size_t kStates, bool kPreloaded>
void add_multi(OpRegistry& ops, const Update<P, R, kStates, kPreloaded>& update, bool mixed) {
  MultiRow row;
  row.name = multi_name(update.name, mixed);
  row.family = update.name;
  row.group = {"weight", "grad"};
  row.group.insert(row.group.end(), update.states.begin(), update.states.end());
  row.mixed = mixed;
  row.needs_scale = update.kScaleIsInput;
  if (mixed) row.group.emplace_back("weight32");
  row.doc =
      str(update.name, " of many weights",
          mixed ? ", which have the type of their gradients and a float32 copy" : "", "; data is ");
  for (size_t i = 0; i < row.group.size(); ++i) row.doc += str(i ? ", " : "", row.group[i]);
  row.doc += " for each.";
  if (kPreloaded) {  // MXNet 1.x has its own names for these updates
    row.aliases = {row.name};
    row.name = row.name.substr(1);
  }
  ops.add(make_multi<P>(row));
  if (!kPreloaded) return;
  row.aliases = {};
  row.family = {};
  row.preloaded = true;
  row.doc = str(row.name, " with arrays of learning rates and weight decays after the weights.");
  row.name = "preloaded_" + row.name;
  ops.add(make_multi<P>(row));
}

void add_lamb(OpRegistry& ops, bool mixed) {
  MultiRow row{.name = mixed ? "_multi_mp_lamb_update" : "_multi_lamb_update",
               .family = "lamb_update",
               .doc = "Both phases of LAMB for many weights; data is weight, grad, mean, var",
               .group = {"weight", "grad", "mean", "var"},
               .mixed = mixed,
               .count_name = "num_tensors",
               .renamed = {{"lr", "learning_rates"}, {"wd", "wds"}, {"t", "step_count"}}};
  if (mixed) {
    row.doc += ", weight32";
    row.group.emplace_back("weight32");
  }
  row.doc += " for each.";
  ops.add(make_multi<LambUpdateParams>(row));
}

}  // namespace
}  // namespace optimizer

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: this folder's own names
  for_each_update([&](const auto& update) {
    add_multi(ops, update, false);
    add_multi(ops, update, true);
  });
  add_lamb(ops, false);
  add_lamb(ops, true);
  ops.add(OpBuilder<NumArraysParams>("multi_sum_sq")
              .variadic("data")
              .named_inputs(array_names<NumArraysParams>)
              .doc("Sum of the squares of each array, as one float32 array.")
              .shapes("any shapes -> (count,)")
              .infer([](const NumArraysParams& p, std::span<const TensorSpec> in) -> Specs {
                check_count("multi_sum_sq", p, in.size());
                return {{Shape{p.num_arrays}, DType::kFloat32}};
              })
              .refine([](const NumArraysParams& p, PartialShapes& shapes) {
                shapes.refine_output(0, Shape{p.num_arrays});
              }));
  ops.add(
      OpBuilder<LarsParams>("multi_lars")
          .inputs({"lrs", "weights_sum_sq", "grads_sum_sq", "wds"})
          .doc("LARS learning rates: lr * eta * |w| / (|g| * rescale_grad + wd * |w| + eps), or "
               "lr where a norm is 0.")
          .shapes("(count,) each -> (count,)")
          .infer(infer_lars)
          .refine(refine_all_alike));
  ops.add(OpBuilder<NumArraysParams>("reset_arrays")
              .variadic("data")
              .named_inputs(array_names<NumArraysParams>)
              .doc("Sets all arrays to 0.")
              .shapes("any shapes -> set to 0 in place")
              .outputs(0)
              .mutates_every(1, {0})
              .infer([](const NumArraysParams& p, std::span<const TensorSpec> in) -> Specs {
                check_count("reset_arrays", p, in.size());
                return {};
              }));
  ops.add(OpBuilder<FiniteParams>("all_finite")
              .doc("1 if no element is NaN or infinite, else 0.")
              .shapes("any shape -> (1,)")
              .infer([](const FiniteParams& p, std::span<const TensorSpec>) -> Specs {
                check_init("all_finite", p);
                return {kFlag};
              })
              .refine(refine_flag)
              .zero_gradient());
  ops.add(OpBuilder<MultiFiniteParams>("multi_all_finite")
              .variadic("data")
              .named_inputs(array_names<MultiFiniteParams>)
              .doc("1 if no element of any array is NaN or infinite, else 0.")
              .shapes("any shapes -> (1,)")
              .infer([](const MultiFiniteParams& p, std::span<const TensorSpec> in) -> Specs {
                check_init("multi_all_finite", p);
                check_count("multi_all_finite", p, in.size());
                return {kFlag};
              })
              .refine(refine_flag)
              .zero_gradient());
});

}  // namespace mxlite
