// Updates of many weights in one call, which lists the arrays of the first weight, then the arrays
// of the second, and so on. The parameters are those of the update of one weight; each parameter is
// one number or a list with one number per weight. Numbers that change from step to step may be
// passed in arrays instead (LoadedFields), so that a call in a graph stays the same.
#pragma once
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <span>
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
struct MultiBase {
  unsigned given_loaded = 0;  // bit k: LoadedFields' k-th parameter
};
template <class P>
struct Multi : MultiBase {
  std::vector<P> each;  // one per weight
};

// Describes P and Multi<P> to code that is not a template.
struct WeightParams {
  std::vector<ParamField> fields;   // P's
  std::vector<std::string> loaded;  // names of LoadedFields<P>
  size_t bytes;                     // sizeof(P)
  std::shared_ptr<MultiBase> (*make)(size_t weights);
  std::span<const std::byte> (*each)(const MultiBase& multi);  // the bytes of Multi<P>::each
};
template <class P>
WeightParams weight_params() {
  return {param_fields<P>(), LoadedFields<P>::names(), sizeof(P),
          [](size_t weights) -> std::shared_ptr<MultiBase> {
            auto multi = std::make_shared<Multi<P>>();
            multi->each.resize(weights);
            return multi;
          },
          [](const MultiBase& multi) {
            return std::as_bytes(std::span(static_cast<const Multi<P>&>(multi).each));
          }};
}

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
  // Parameters with other names than in P, which must have one number per weight.
  std::map<std::string, std::string> renamed = {{"lr", "lrs"}, {"wd", "wds"}, {"eta", "etas"}};
  std::vector<std::string> aliases = {};

  const std::string* new_name(std::string_view field) const {
    for (const auto& [from, to] : renamed)
      if (from == field) return &to;
    return nullptr;
  }
  // Returns whether the call lacks the parameter `field` of a single-weight update.
  bool leaves_out(std::string_view field) const {
    return field == "lazy_update" || (preloaded && loaded_index(field) >= 0);
  }
  // Returns the index of a parameter in `loaded`, or -1.
  int loaded_index(std::string_view field) const {
    const auto found = std::find(loaded.begin(), loaded.end(), field);
    return found == loaded.end() ? -1 : static_cast<int>(found - loaded.begin());
  }
  // Returns whether `extra` arrays after the arrays of the weights contain the loaded fields. There
  // are two such arrays: "numbers", with a row per field and a number per weight, and the factor on
  // all gradients; or, in MXNet 1.x's form, the learning rates and the weight decays.
  static bool loads(size_t extra) { return extra == 2; }
  bool takes(size_t extra) const {
    return loads(extra) || (!preloaded && (extra == 1 || (extra == 0 && !needs_scale)));
  }
};

// The arrays that follow the arrays of the weights in a call.
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

// Makes the schema of an update of many weights. The update changes the states in place; a new
// weight may use the memory of the old weight.
OpSchema make_multi(MultiRow row, const WeightParams& type);

// Returns "_multi_sgd_update" for "sgd_update", or "_multi_mp_sgd_update" if `mixed`.
inline std::string multi_name(std::string_view name, bool mixed) {
  const std::string_view bare = name.substr(name.starts_with("_") ? 1 : 0);
  return str("_multi_", mixed ? "mp_" : "", bare);
}

}  // namespace mxlite::optimizer
