// Updates of many weights in one call, which lists the arrays of the first weight, then those of
// the second, and so on. The parameters are those of the update of one weight; each is one number
// or a list with one number per weight. Numbers that change from step to step may be passed in
// arrays instead (LoadedFields), so that a call in a graph stays the same.
#pragma once
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "cpp/ops/optimizer/updates.h"

namespace mxlite::optimizer {

constexpr int kMaxInplace = 64;  // number of weights of a call, counted from the first, that may be
                                 // updated in place
constexpr int64_t kMaxWeights = 4096;

// The parameters that a call may read from arrays with one number per weight: learning rate, weight
// decay and update count. set() assigns number(0), number(1), ... to them.
template <class P>
struct LoadedFields {
  static constexpr bool kRate = requires(P p) { p.lr; };
  static constexpr bool kDecay = requires(P p) { p.wd; };
  static constexpr bool kCount = requires(P p) { p.t; };
  static constexpr size_t kNumber = size_t{kRate} + size_t{kDecay} + size_t{kCount};

  static std::vector<std::string> names() {
    std::vector<std::string> names;
    if (kRate) names.emplace_back("lr");
    if (kDecay) names.emplace_back("wd");
    if (kCount) names.emplace_back("t");
    return names;
  }
  MX_HOST_DEVICE static void set(P& p, auto&& number) {
    int k = 0;
    if constexpr (kRate) p.lr = number(k++);
    if constexpr (kDecay) p.wd = number(k++);
    if constexpr (kCount) p.t = static_cast<int64_t>(number(k++));
  }
};
constexpr size_t kMaxLoaded = 3;

// Parameters of a call; P is the parameter struct of one weight.
template <class P>
struct Multi {
  std::vector<P> each;                                       // one per weight
  unsigned given_loaded = 0;                                 // bit k: LoadedFields' k-th parameter
  static constexpr auto fields() { return std::tuple<>(); }  // placeholder that make_multi replaces
};

struct MultiRow {
  std::string name;
  std::string family;  // UpdateFamily::name; empty for none
  std::string doc;
  std::vector<std::string> group;  // arrays of one weight
  bool mixed = false;              // whether all arrays but weight and grad are float32
  bool preloaded = false;          // MXNet 1.x's form that requires arrays of loaded fields
  bool needs_scale = false;  // whether the last input is an array with a factor of the gradients
  std::vector<std::string> loaded = {};  // names of LoadedFields
  unsigned required_loaded = 0;  // bit k: field k is required, as a parameter or in an array
  const char* count_name = "num_weights";
  // Parameters whose names differ from those in P; they must have one number per weight.
  std::map<std::string, std::string> renamed = {{"lr", "lrs"}, {"wd", "wds"}, {"eta", "etas"}};
  std::vector<std::string> aliases = {};

  const std::string* new_name(std::string_view field) const {
    for (const auto& [from, to] : renamed)
      if (from == field) return &to;
    return nullptr;
  }
  // Returns the index of a parameter in `loaded`, or -1.
  int loaded_index(std::string_view field) const {
    const auto found = std::find(loaded.begin(), loaded.end(), field);
    return found == loaded.end() ? -1 : static_cast<int>(found - loaded.begin());
  }
  // Returns whether `extra` arrays after those of the weights contain the loaded fields. There are
  // two such arrays: "numbers", with a row per field and a number per weight, and the factor on all
  // gradients; or, in MXNet 1.x's form, the learning rates and the weight decays.
  static bool loads(size_t extra) { return extra == 2; }
  bool takes(size_t extra) const {
    return loads(extra) || (!preloaded && (extra == 1 || (extra == 0 && !needs_scale)));
  }
};

// The arrays that follow those of the weights in a call.
template <class P>
struct ExtraArrays {
  std::array<TensorRef, LoadedFields<P>::kNumber> loaded;  // if `loads`: one number per weight
  bool loads = false;
  const TensorRef* scale = nullptr;  // one number: a factor of all gradients

  ExtraArrays(std::span<const TensorRef> in, size_t group, size_t weights) {
    const auto extra = in.subspan(group * weights);
    loads = MultiRow::loads(extra.size());
    const bool preloaded = loads && static_cast<size_t>(extra[0].size()) < loaded.size() * weights;
    if (!preloaded && !extra.empty()) scale = &extra.back();
    for (size_t k = 0; loads && k < loaded.size(); ++k) {
      loaded[k] = extra[preloaded ? k : 0];
      if (preloaded) continue;
      const size_t row = weights * dtype_size(loaded[k].dtype);
      loaded[k].data = loaded[k].template as<std::byte>() + k * row;
    }
  }
};

// Checks the arrays of `weights` weights and the arrays after them. Returns the specs of the new
// weights. `given_loaded`: see Multi.
Specs infer_groups(const MultiRow& row, int64_t weights, unsigned given_loaded,
                   std::span<const TensorSpec> in);

// Returns one number per weight for the parameter `name`. A single number is used for all weights
// unless `listed`. Throws a value error for any other count.
std::vector<double> numbers_of_weights(const MultiRow& row, const char* name,
                                       const AttrValue& value, int64_t weights, bool listed);
// Returns the names of a symbol's inputs: weight_0, grad_0, weight_1, ...
std::vector<std::string> input_names(const MultiRow& row, int64_t weights);
int64_t checked_weights(const MultiRow& row, const AttrValue& value, bool given);
bool is_empty_list(const AttrValue& value);
// Returns the documentation of the arrays that follow those of the weights.
std::string extra_doc(const MultiRow& row);

template <class P, class F>
void for_each_multi_field(const MultiRow& row, F&& fn) {
  for_each_field<P>([&](const auto& f) {
    const std::string_view name = f.name;
    const bool left_out = name == "lazy_update" || (row.preloaded && row.loaded_index(name) >= 0);
    if (!left_out) fn(f, row.new_name(name));
  });
}

template <class P>
std::vector<ParamInfo> multi_params(const MultiRow& row) {
  std::vector<ParamInfo> infos;
  const P defaults{};
  for_each_multi_field<P>(row, [&](const auto& f, const std::string* renamed) {
    using T = std::remove_cvref_t<decltype(defaults.*(f.member))>;
    const bool loaded = row.loaded_index(f.name) >= 0;
    const bool required = !loaded && (renamed != nullptr || f.required);
    ParamInfo info{renamed ? *renamed : f.name,
                   AttrTraits<T>::python_type(),
                   required ? ""
                   : loaded ? "()"
                            : attr_text(AttrTraits<T>::to(defaults.*(f.member))),
                   f.doc,
                   required,
                   range_text(f.range)};
    if constexpr (!std::is_same_v<T, bool>)
      info.python_type += " | Sequence[" + info.python_type + "]";
    if (renamed) info.doc.insert(info.doc.size() - 1, ", one number for each weight");
    if (loaded) info.doc += " Empty: not given.";
    infos.push_back(info);
  });
  infos.push_back({row.count_name, "int", "1", "How many weights.", false,
                   range_text({1, static_cast<double>(kMaxWeights)})});
  return infos;
}

template <class P>
ParamsRef make_multi_params(const MultiRow& row, std::span<const AttrValue> values,
                            uint64_t given) {
  auto params = std::make_shared<Multi<P>>();
  const size_t last = values.size() - 1;
  const int64_t weights = checked_weights(row, values[last], given >> last & 1);
  params->each.resize(static_cast<size_t>(weights));
  size_t i = 0;
  for_each_multi_field<P>(row, [&](const auto& f, const std::string* renamed) {
    using T = std::remove_cvref_t<decltype(std::declval<P&>().*(f.member))>;
    const auto name = [&] { return renamed ? *renamed : std::string(f.name); };
    const int loaded = row.loaded_index(f.name);
    if ((given >> i & 1) && !(loaded >= 0 && is_empty_list(values[i]))) {
      if (loaded >= 0) params->given_loaded |= 1U << loaded;
      try {
        if constexpr (std::is_same_v<T, bool>) {
          for (P& p : params->each) p.*(f.member) = attr_to_bool(values[i]);
        } else {
          const std::vector<double> numbers = numbers_of_weights(
              row, renamed ? renamed->c_str() : f.name, values[i], weights, renamed != nullptr);
          if (f.range.is_bounded()) check_attr_range(AttrValue(numbers), f.range);
          for (size_t w = 0; w < numbers.size(); ++w) {
            if constexpr (std::is_same_v<T, double>)
              params->each[w].*(f.member) = numbers[w];
            else
              params->each[w].*(f.member) = AttrTraits<T>::from(AttrValue(numbers[w]));
          }
        }
      } catch (const AttrMismatch& m) {
        throw_attr_mismatch(row.name, name(), values[i], m);
      }
    } else if (loaded < 0 && (renamed || f.required)) {
      throw_missing_param(row.name, name());
    }
    ++i;
  });
  return params;
}

template <class P>
std::vector<AttrValue> multi_values(const MultiRow& row, const Multi<P>& params) {
  std::vector<AttrValue> values;
  for_each_multi_field<P>(row, [&](const auto& f, const std::string* renamed) {
    using T = std::remove_cvref_t<decltype(std::declval<P&>().*(f.member))>;
    const int loaded = row.loaded_index(f.name);
    if (loaded >= 0 && !(params.given_loaded >> loaded & 1)) {
      values.emplace_back(std::vector<double>());
    } else if constexpr (std::is_same_v<T, bool>) {
      values.emplace_back(params.each[0].*(f.member));
    } else {
      std::vector<double> numbers;
      for (const P& p : params.each) numbers.push_back(static_cast<double>(p.*(f.member)));
      const bool equal =
          std::all_of(numbers.begin(), numbers.end(), [&](double x) { return x == numbers[0]; });
      if (renamed || !equal)
        values.emplace_back(numbers);
      else
        values.push_back(AttrTraits<T>::to(params.each[0].*(f.member)));
    }
  });
  values.emplace_back(static_cast<int64_t>(params.each.size()));
  return values;
}

// Makes the schema of an update of many weights. It changes the states in place; a new weight may
// use the memory of the old one.
template <class P>
OpSchema make_multi(MultiRow row) {
  row.loaded = LoadedFields<P>::names();
  for_each_field<P>([&](const auto& f) {
    const int loaded = row.loaded_index(f.name);
    if (loaded >= 0 && (f.required || row.new_name(f.name))) row.required_loaded |= 1U << loaded;
  });
  row.doc += extra_doc(row);
  const int group = static_cast<int>(row.group.size());
  OpBuilder<Multi<P>> op(row.name);
  std::vector<int> mutated;
  for (int i = 2; i < group; ++i) mutated.push_back(i);
  if (!mutated.empty()) op.mutates_every(group, mutated);
  for (int i = 0; i < kMaxInplace; ++i) op.inplace(i * group, i);
  op.variadic("data").doc(row.doc).alias(row.aliases);
  op.output_count([](const Multi<P>& p, int) { return static_cast<int>(p.each.size()); });
  op.infer([row](const Multi<P>& p, std::span<const TensorSpec> in) {
    return infer_groups(row, static_cast<int64_t>(p.each.size()), p.given_loaded, in);
  });
  op.named_inputs(
      [row](const Multi<P>& p) { return input_names(row, static_cast<int64_t>(p.each.size())); });
  OpSchema schema = op;
  schema.params = multi_params<P>(row);
  schema.default_params = nullptr;
  const bool any_required = std::any_of(schema.params.begin(), schema.params.end(),
                                        [](const ParamInfo& p) { return p.required; });
  if (!row.family.empty()) {
    schema.update_family = {row.family, row.mixed, row.count_name};
    for_each_multi_field<P>(row, [&](const auto& f, const std::string* renamed) {
      if (renamed) schema.update_family.listed[f.name] = *renamed;
    });
  }
  if (!any_required)
    schema.default_params =
        make_multi_params<P>(row, std::vector<AttrValue>(schema.params.size()), 0);
  schema.make_params = [row](std::span<const AttrValue> values, uint64_t given) {
    return make_multi_params<P>(row, values, given);
  };
  schema.params_values = [row](const void* p) {
    return multi_values<P>(row, *static_cast<const Multi<P>*>(p));
  };
  return schema;
}

// Returns "_multi_sgd_update" for "sgd_update", or "_multi_mp_sgd_update" if `mixed`.
inline std::string multi_name(std::string_view name, bool mixed) {
  const std::string_view bare = name.substr(name.starts_with("_") ? 1 : 0);
  return str("_multi_", mixed ? "mp_" : "", bare);
}

}  // namespace mxlite::optimizer
