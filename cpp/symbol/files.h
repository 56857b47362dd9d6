// Symbols as text in the layout of MXNet 1.9.1's -symbol.json files, and back.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cpp/base/file_error.h"
#include "cpp/symbol/node.h"

namespace mxlite::symbol {

inline constexpr size_t kMaxNodes = 1'000'000;  // in a file, with those of subgraphs
inline constexpr int kMaxDepth = 16;            // levels of nested subgraphs

// Makes the call of an operator of a file, which may be no operator of the registry.
using MakeCall = std::function<Call(const std::string& op, const Attributes& attrs)>;

// Tells files what they need to know.
struct FileHooks {
  MakeCall make_call;
  bool np_shape = false;  // unknown extents are -1
};

// Returns what 1.9.1 writes for the same graph, character by character.
std::string to_json(const NodeOutputs& heads, bool remove_amp_cast, bool np_shape);

// The outputs of a graph that any MXNet 1.x wrote; `source` names the file in errors. The whole
// graph is checked: types, references, cycles, arity, attributes, number of nodes, nesting. Throws
// FileError for a fault of the file itself.
NodeOutputs load(const std::string& text, const std::string& source, const FileHooks& hooks);

}  // namespace mxlite::symbol
