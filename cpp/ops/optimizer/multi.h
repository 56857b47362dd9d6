// The forms of updates over many weights: a call lists the arrays of each weight in turn. Their
// parameters are those of the update of one weight, each as one number or one per weight.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "cpp/ops/optimizer/updates.h"

namespace mxlite::optimizer {

constexpr int kMaxInplace = 64;  // weights of one call that are updated in their own memory
constexpr int64_t kMaxWeights = 4096;

// Parameters of a call; P are those of one weight.
template <class P>
struct Multi {
  std::vector<P> each;                                       // one per weight
  static constexpr auto fields() { return std::tuple<>(); }  // make_multi replaces them
};

struct MultiRow {
  std::string name;
  std::string doc;
  std::vector<std::string> group;  // arrays of one weight
  bool mixed = false;              // all but weight and grad are float32
  bool preloaded = false;          // arrays of learning rates and weight decays come last
  bool needs_scale = false;        // one array, a factor on all gradients, comes last
  const char* count_name = "num_weights";
  // Parameters under another name than in P: these need a number per weight.
  std::vector<std::pair<std::string, std::string>> renamed = {
      {"lr", "lrs"}, {"wd", "wds"}, {"eta", "etas"}};
  std::vector<std::string> aliases = {};

  const std::string* new_name(std::string_view field) const {
    for (const auto& [from, to] : renamed)
      if (from == field) return &to;
    return nullptr;
  }
  // Arrays after those of the weights: lrs and wds, or the scale of AdamW.
  size_t extra() const { return preloaded ? 2 : needs_scale ? 1 : 0; }
  // Whether there is an optional factor on the gradients after all other arrays.
  bool may_scale() const { return !preloaded && !needs_scale; }
};

// Checks the groups of `weights` weights and the arrays after them; the outputs are like the
// weights.
Specs infer_groups(const MultiRow& row, int64_t weights, std::span<const TensorSpec> in);

// Returns one number per weight for the parameter `name`. Throws a value error for another count
// of numbers, where a single one may stand for all unless `listed`.
std::vector<double> numbers_of_weights(const MultiRow& row, const char* name,
                                       const AttrValue& value, int64_t weights, bool listed);
int64_t checked_weights(const MultiRow& row, const AttrValue& value, bool given);

template <class P, class F>
void for_each_multi_field(const MultiRow& row, F&& fn) {
  for_each_field<P>([&](const auto& f) {
    const std::string_view name = f.name;
    const bool left_out =
        name == "lazy_update" || (row.preloaded && (name == "lr" || name == "wd"));
    if (!left_out) fn(f, row.new_name(name));
  });
}

template <class P>
std::vector<ParamInfo> multi_params(const MultiRow& row) {
  std::vector<ParamInfo> infos;
  const P defaults{};
  for_each_multi_field<P>(row, [&](const auto& f, const std::string* renamed) {
    using T = std::remove_cvref_t<decltype(defaults.*(f.member))>;
    const bool required = renamed != nullptr || f.required;
    ParamInfo info{renamed ? *renamed : f.name,
                   AttrTraits<T>::python_type(),
                   required ? "" : attr_text(AttrTraits<T>::to(defaults.*(f.member))),
                   f.doc,
                   required,
                   range_text(f.range)};
    if constexpr (!std::is_same_v<T, bool>)
      info.python_type += " | Sequence[" + info.python_type + "]";
    if (renamed) info.doc.insert(info.doc.size() - 1, ", one number for each weight");
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
    if (given >> i & 1) {
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
    } else if (renamed || f.required) {
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
    if constexpr (std::is_same_v<T, bool>) {
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

// The schema of an update over many weights. States are changed; a new weight may use the memory
// of the old one.
template <class P>
OpSchema make_multi(const MultiRow& row) {
  const int group = static_cast<int>(row.group.size());
  OpBuilder<Multi<P>> op(row.name);
  std::vector<int> mutated;
  for (int i = 2; i < group; ++i) mutated.push_back(i);
  if (!mutated.empty()) op.mutates_every(group, mutated);
  for (int i = 0; i < kMaxInplace; ++i) op.inplace(i * group, i);
  op.variadic("data").doc(row.doc).alias(row.aliases);
  op.output_count([](const Multi<P>& p, int) { return static_cast<int>(p.each.size()); });
  op.infer([row](const Multi<P>& p, std::span<const TensorSpec> in) {
    return infer_groups(row, static_cast<int64_t>(p.each.size()), in);
  });
  OpSchema schema = op.build();
  schema.params = multi_params<P>(row);
  schema.default_params = nullptr;
  const bool any_required = std::any_of(schema.params.begin(), schema.params.end(),
                                        [](const ParamInfo& p) { return p.required; });
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

// "_multi_sgd_update" of "sgd_update"; with `mixed` "_multi_mp_sgd_update".
inline std::string multi_name(std::string_view name, bool mixed) {
  const std::string_view bare = name.substr(name.starts_with("_") ? 1 : 0);
  return str("_multi_", mixed ? "mp_" : "", bare);
}

// The factor on the gradients of a call; absent: no array for it was given.
inline const TensorRef* scale_of(Inputs in, size_t group, size_t weights, size_t extra_before = 0) {
  const size_t at = group * weights + extra_before;
  return in.size() > at ? &in[at] : nullptr;
}

}  // namespace mxlite::optimizer
