#include "cpp/symbol/names.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "cpp/ops/op_schema.h"

namespace mxlite::symbol {
namespace {

using NameMap = std::map<std::string, std::string, std::less<>>;

// Names in 1.x files under which the engine has no operator.
const NameMap kEngineNames = {
    {"_np_cumsum", "cumsum"},
};

// Operators that files name in another way than the engine.
const NameMap kFileNames = {
    {"shuffle", "_shuffle"},
    {"ravel_multi_index", "_ravel_multi_index"},
    {"unravel_index", "_unravel_index"},
    {"cumsum", "_np_cumsum"},
    {"normal", "_random_normal"},
    {"uniform", "_random_uniform"},
    {"_reshape_to", "Reshape"},
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace

bool is_hidden_key(std::string_view key) {
  return std::find(kHiddenKeys.begin(), kHiddenKeys.end(), key) != kHiddenKeys.end();
}

std::string hidden_key(std::string_view key) {
  return is_hidden_key(key) ? "__" + std::string(key) + "__" : std::string(key);
}

std::optional<InputAttribute> input_attribute(std::string_view key) {
  for (const std::string_view hidden : kHiddenKeys) {
    if (!key.ends_with(hidden)) continue;
    const std::string_view input = key.substr(0, key.size() - hidden.size());
    if (input.size() > 1 && input.back() == '_')
      return InputAttribute{std::string(input.substr(0, input.size() - 1)), hidden_key(hidden)};
  }
  return std::nullopt;
}

std::string engine_name(std::string_view op) {
  const auto found = kEngineNames.find(op);
  return found == kEngineNames.end() ? std::string(op) : found->second;
}

std::string file_name(std::string_view alias) {
  for (const std::string& name : {lower(alias), std::string(alias)}) {
    const OpSchema* op = ops().find(engine_name(name));
    if (op && op->kept_aliases.contains(name)) return name;
  }
  const std::string& canonical = ops().get(engine_name(alias)).name;
  for (const char* prefix : {"linalg_", "random_", "sample_"})
    if (canonical.starts_with(prefix)) return "_" + canonical;
  const auto found = kFileNames.find(canonical);
  return found == kFileNames.end() ? canonical : found->second;
}

std::string hint(std::string_view alias) {
  for (const std::string_view prefix :
       {"_contrib_", "_linalg_", "linalg_", "_image_", "_sparse_"}) {
    if (!alias.starts_with(prefix)) continue;
    alias.remove_prefix(prefix.size());
    break;
  }
  return lower(alias);
}

}  // namespace mxlite::symbol
