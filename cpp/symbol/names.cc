#include "cpp/symbol/names.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "cpp/ops/op_schema.h"

namespace mxlite::symbol {
namespace {

// Maps operator names that occur only in files to names of the engine's operators.
const std::map<std::string, std::string, std::less<>>& engine_names() {
  static const auto* const made = [] {
    auto* names = new std::map<std::string, std::string, std::less<>>;
    for (const OpSchema* op : ops().all())
      if (const std::string& name = op->symbol.file_name; !name.empty() && !ops().find(name))
        (*names)[name] = op->name;
    return names;
  }();
  return *made;
}

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
  const auto found = engine_names().find(op);
  return found == engine_names().end() ? std::string(op) : found->second;
}

std::string file_name(std::string_view alias) {
  for (const std::string& name : {lower(alias), std::string(alias)}) {
    const OpSchema* op = ops().find(engine_name(name));
    if (op && op->kept_aliases.contains(name)) return name;
  }
  const OpSchema& op = ops().get(engine_name(alias));
  const std::string& canonical = op.name;
  for (const char* prefix : {"linalg_", "random_", "sample_"})
    if (canonical.starts_with(prefix)) return "_" + canonical;
  return op.symbol.file_name.empty() ? canonical : op.symbol.file_name;
}

std::string hint(std::string_view alias) {
  for (const std::string_view prefix :
       {"_contrib_", "_linalg_", "_image_", "_sparse_", "_random_"}) {
    if (!alias.starts_with(prefix)) continue;
    if (prefix == "_random_" && !alias.ends_with("_like")) continue;
    alias.remove_prefix(prefix.size());
    break;
  }
  return lower(alias);
}

}  // namespace mxlite::symbol
