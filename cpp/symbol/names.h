// Names of operators in files and for users.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace mxlite::symbol {

// Attributes of 1.x that users write without underscores and symbols store with underscores.
inline constexpr std::array<std::string_view, 5> kHiddenKeys = {"ctx_group", "lr_mult", "wd_mult",
                                                                "force_mirroring", "mirror_stage"};
// Attribute that holds a variable's shape in a trace with fixed shapes, such as (0, 3). Here 0
// means any size.
inline constexpr const char* kTracedShape = "__traced_shape__";
bool is_hidden_key(std::string_view key);
std::string hidden_key(std::string_view key);  // returns __lr_mult__ for lr_mult, and other keys
                                               // unchanged
// An operator's attribute that applies to an input: weight_lr_mult is __lr_mult__ of weight.
struct InputAttribute {
  std::string input, key;
};
std::optional<InputAttribute> input_attribute(std::string_view key);

// Returns the engine's name of an operator in a file of 1.x.
std::string engine_name(std::string_view op);
// Returns the name that files of 1.9.1 use for an operator that is called by an alias.
std::string file_name(std::string_view alias);
// Returns the text from which automatic names are made: "fullyconnected" for FullyConnected.
std::string hint(std::string_view alias);

}  // namespace mxlite::symbol
