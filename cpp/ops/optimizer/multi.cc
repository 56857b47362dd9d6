// Shared checks of updates over many weights; operators for sums and tests over many arrays.
#include "cpp/ops/optimizer/multi.h"

#include <algorithm>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace optimizer {

namespace {

// Returns one number per weight for the parameter `name`. A single number is used for all weights
// unless `listed`. Throws a value error for any other count.
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

// Returns the names of a symbol's inputs: weight_0, grad_0, weight_1, ...
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

// Returns the documentation of an update, without the arrays that follow the arrays of the weights.
std::string group_doc(std::string_view update, const MultiRow& row) {
  std::string doc = str(update, " of many weights; data holds ");
  for (size_t i = 0; i < row.group.size(); ++i) doc += str(i ? ", " : "", row.group[i]);
  doc += " of each weight in turn.";
  if (row.mixed)
    doc += " Weights have the dtype of their gradients; weight32 is a float32 copy of each weight.";
  return doc;
}

// Returns the documentation of the arrays that follow the arrays of the weights.
std::string extra_doc(const MultiRow& row) {
  if (row.preloaded) return "";
  std::string fields;
  for (const std::string& name : row.loaded) fields += (fields.empty() ? "" : ", ") + name;
  const char* const scale = row.needs_scale ? "rescale_grad" : "scale";
  return str(row.needs_scale ? " After them, data holds " : " After them, data may hold ", scale,
             ", or numbers and ", scale, ". ", scale,
             " is one number, a factor of all gradients; if it is 0 or not finite, nothing "
             "changes. numbers has a row for each of ",
             fields, " and a column for each weight, and replaces these parameters.");
}

// Throws if a loaded field is passed both as a parameter and in an array, or if a required field is
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

// Checks the arrays of `weights` weights and the arrays after them. Returns the specs of the new
// weights.
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

std::vector<ParamInfo> multi_params(const MultiRow& row, const WeightParams& type) {
  std::vector<ParamInfo> infos;
  const auto defaults = type.make(1);
  for (const ParamField& f : type.fields) {
    if (row.leaves_out(f.name)) continue;
    const std::string* const renamed = row.new_name(f.name);
    const bool loaded = row.loaded_index(f.name) >= 0;
    const bool required = !loaded && (renamed != nullptr || f.required);
    ParamInfo info{renamed ? *renamed : f.name,
                   f.type->python_type(),
                   required ? ""
                   : loaded ? "()"
                            : attr_text(f.get(type.each(*defaults).data())),
                   f.doc,
                   required,
                   range_text(f.range)};
    if (f.type != &kAttrType<bool>) info.python_type += " | Sequence[" + info.python_type + "]";
    if (renamed) info.doc.insert(info.doc.size() - 1, ", one number for each weight");
    if (loaded) info.doc += " An empty list means that the parameter is not given.";
    infos.push_back(info);
  }
  infos.push_back({row.count_name, "int", "1", "Number of weights.", false,
                   range_text({1, static_cast<double>(kMaxWeights)})});
  return infos;
}

// Sets a parameter of all weights. Throws AttrMismatch if the value does not fit.
void set_multi(const MultiRow& row, const WeightParams& type, const ParamField& f,
               const AttrValue& value, MultiBase& multi) {
  const auto each = type.each(multi);
  const size_t weights = each.size() / type.bytes;
  const auto set = [&](size_t weight, const AttrValue& one) {
    f.set(const_cast<std::byte*>(&each[weight * type.bytes]), one);
  };
  if (f.type == &kAttrType<bool>) {
    for (size_t w = 0; w < weights; ++w) set(w, value);
    return;
  }
  const std::string* const renamed = row.new_name(f.name);
  const std::vector<double> numbers =
      numbers_of_weights(row, renamed ? renamed->c_str() : f.name, value,
                         static_cast<int64_t>(weights), renamed != nullptr);
  if (f.range.is_bounded()) check_attr_range(AttrValue(numbers), f.range);
  for (size_t w = 0; w < numbers.size(); ++w) set(w, AttrValue(numbers[w]));
}

ParamsRef make_multi_params(const MultiRow& row, const WeightParams& type,
                            std::span<const AttrValue> values, uint64_t given) {
  const size_t last = values.size() - 1;
  const int64_t weights = checked_weights(row, values[last], given >> last & 1);
  const auto params = type.make(static_cast<size_t>(weights));
  size_t i = 0;
  for (const ParamField& f : type.fields) {
    if (row.leaves_out(f.name)) continue;
    const std::string* const renamed = row.new_name(f.name);
    const int loaded = row.loaded_index(f.name);
    if ((given >> i & 1) && !(loaded >= 0 && is_empty_list(values[i]))) {
      if (loaded >= 0) params->given_loaded |= 1U << loaded;
      try {
        set_multi(row, type, f, values[i], *params);
      } catch (const AttrMismatch& m) {
        throw_attr_mismatch(row.name, renamed ? *renamed : f.name, values[i], m);
      }
    } else if (loaded < 0 && (renamed || f.required)) {
      throw_missing_param(row.name, renamed ? *renamed : f.name);
    }
    ++i;
  }
  return params;
}

std::vector<AttrValue> multi_values(const MultiRow& row, const WeightParams& type,
                                    const MultiBase& params) {
  std::vector<AttrValue> values;
  const auto each = type.each(params);
  for (const ParamField& f : type.fields) {
    if (row.leaves_out(f.name)) continue;
    const int loaded = row.loaded_index(f.name);
    if (loaded >= 0 && !(params.given_loaded >> loaded & 1)) {
      values.emplace_back(std::vector<double>());
    } else if (f.type == &kAttrType<bool>) {
      values.push_back(f.get(each.data()));
    } else {
      std::vector<double> numbers;
      for (size_t at = 0; at < each.size(); at += type.bytes)
        numbers.push_back(attr_to_double(f.get(&each[at])));
      const bool equal =
          std::all_of(numbers.begin(), numbers.end(), [&](double x) { return x == numbers[0]; });
      if (row.new_name(f.name) || !equal)
        values.emplace_back(numbers);
      else
        values.push_back(f.get(each.data()));
    }
  }
  values.emplace_back(static_cast<int64_t>(each.size() / type.bytes));
  return values;
}

}  // namespace

OpSchema make_multi(MultiRow row, const WeightParams& type) {
  row.loaded = type.loaded;
  for (const ParamField& f : type.fields) {
    const int loaded = row.loaded_index(f.name);
    if (loaded >= 0 && (f.required || row.new_name(f.name))) row.required_loaded |= 1U << loaded;
  }
  row.doc += extra_doc(row);
  const int group = static_cast<int>(row.group.size());
  OpBuilder<NoParams> op(row.name);
  std::vector<int> mutated;
  for (int i = 2; i < group; ++i) mutated.push_back(i);
  if (!mutated.empty()) op.mutates_every(group, mutated);
  for (int i = 0; i < kMaxInplace; ++i) op.inplace(i * group, i);
  op.variadic("data").doc(row.doc).alias(row.aliases);
  const auto count = [each = type.each, bytes = type.bytes](const void* p) {
    return static_cast<int64_t>(each(*static_cast<const MultiBase*>(p)).size() / bytes);
  };
  op.output_count([count](const void* p, int) { return static_cast<int>(count(p)); });
  op.infer([row, count](const void* p, std::span<const TensorSpec> in) {
    return infer_groups(row, count(p), static_cast<const MultiBase*>(p)->given_loaded, in);
  });
  op.named_inputs([row, count](const void* p) { return input_names(row, count(p)); });
  OpSchema schema = op;
  schema.params = multi_params(row, type);
  schema.default_params = nullptr;
  const bool any_required = std::any_of(schema.params.begin(), schema.params.end(),
                                        [](const ParamInfo& p) { return p.required; });
  if (!row.family.empty()) {
    schema.update_family = {row.family, row.mixed, row.count_name};
    for (const ParamField& f : type.fields)
      if (const std::string* renamed = row.new_name(f.name); renamed && !row.leaves_out(f.name))
        schema.update_family.listed[f.name] = *renamed;
  }
  if (!any_required)
    schema.default_params =
        make_multi_params(row, type, std::vector<AttrValue>(schema.params.size()), 0);
  schema.make_params = [row, type](std::span<const AttrValue> values, uint64_t given) {
    return make_multi_params(row, type, values, given);
  };
  schema.params_values = [row, type](const void* p) {
    return multi_values(row, type, *static_cast<const MultiBase*>(p));
  };
  return schema;
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

// `preloaded`: whether the update also has a form with arrays of learning rates and weight decays.
void add_multi(OpRegistry& ops, const WeightParams& type, const char* name,
               std::span<const char* const> states, bool needs_scale, bool preloaded, bool mixed) {
  MultiRow row;
  row.name = multi_name(name, mixed);
  row.family = name;
  row.group = {"weight", "grad"};
  row.group.insert(row.group.end(), states.begin(), states.end());
  row.mixed = mixed;
  row.needs_scale = needs_scale;
  if (mixed) row.group.emplace_back("weight32");
  row.doc = group_doc(name, row);
  if (preloaded) {  // MXNet 1.x has its own names for these updates
    row.aliases = {row.name};
    row.name = row.name.substr(1);
  }
  ops.add(make_multi(row, type));
  if (!preloaded) return;
  row.aliases = {};
  row.family = {};
  row.preloaded = true;
  row.doc = str(row.name,
                " whose last two arrays, lrs and wds, hold the learning rates and the weight "
                "decays of all weights.");
  row.name = "preloaded_" + row.name;
  ops.add(make_multi(row, type));
}

template <class P, template <class> class R, size_t kStates, bool kPreloaded>
void add_multi(OpRegistry& ops, const Update<P, R, kStates, kPreloaded>& update) {
  const WeightParams type = weight_params<P>();
  for (const bool mixed : {false, true})
    add_multi(ops, type, update.name, update.states, update.kScaleIsInput, kPreloaded, mixed);
}

void add_lamb(OpRegistry& ops, bool mixed) {
  MultiRow row{.name = mixed ? "_multi_mp_lamb_update" : "_multi_lamb_update",
               .family = "lamb_update",
               .group = {"weight", "grad", "mean", "var"},
               .mixed = mixed,
               .count_name = "num_tensors",
               .renamed = {{"lr", "learning_rates"}, {"wd", "wds"}, {"t", "step_count"}}};
  if (mixed) row.group.emplace_back("weight32");
  row.doc = group_doc("Both phases of LAMB", row);
  ops.add(make_multi(row, weight_params<LambUpdateParams>()));
}

}  // namespace
}  // namespace optimizer

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: this folder's own names
  for_each_update([&](const auto& update) { add_multi(ops, update); });
  add_lamb(ops, false);
  add_lamb(ops, true);
  ops.add(OpBuilder<NumArraysParams>("multi_sum_sq")
              .variadic("data")
              .named_inputs(array_names<NumArraysParams>)
              .doc("Sums of the squares of each array, as one float32 array.")
              .shapes("any shapes -> (count,)")
              .infer([](const NumArraysParams& p, std::span<const TensorSpec> in) -> Specs {
                check_count("multi_sum_sq", p, in.size());
                return {{Shape{p.num_arrays}, DType::kFloat32}};
              })
              .refine([](const NumArraysParams& p, PartialShapes& shapes) {
                shapes.refine_output(0, Shape{p.num_arrays});
              }));
  ops.add(OpBuilder<LarsParams>("multi_lars")
              .inputs({"lrs", "weights_sum_sq", "grads_sum_sq", "wds"})
              .doc("LARS learning rates: lr * eta * |w| / (|g| * rescale_grad + wd * |w| + eps), "
                   "or lr where a norm is 0; |w| and |g| are the roots of the sums of squares.")
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
              .doc("Returns 1 if no element is NaN or infinite, else 0.")
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
              .doc("Returns 1 if no element of any array is NaN or infinite, else 0.")
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
