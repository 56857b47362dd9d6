// Converts symbols to and from text in the layout of MXNet 1.9.1's -symbol.json files.
#pragma once
#include <functional>
#include <string>

#include "cpp/base/file_error.h"
#include "cpp/symbol/node.h"

namespace mxlite::symbol {

inline constexpr size_t kMaxNodes = 1'000'000;  // limit for one file, including subgraphs
inline constexpr int kMaxDepth = 16;            // limit for nested subgraphs

// Creates the call of an operator in a file. The operator may be missing in ops().
using MakeCall = std::function<Call(const std::string& op, const Attributes& attrs)>;

// Functions and settings that reading a file needs.
struct FileHooks {
  MakeCall make_call;
  // Returns whether make_call accepts an operator that is not in ops(). Null means that make_call
  // accepts no such operator.
  std::function<bool(const std::string& op)> knows = nullptr;
  bool np_shape = false;  // whether unknown extents are -1
};

// Returns exactly the text that 1.9.1 writes for the same graph.
std::string to_json(const NodeOutputs& heads, bool remove_amp_cast, bool np_shape);

// Returns the outputs of a graph that any version of MXNet 1.x has written. `source` names the file
// in errors. Checks the whole graph: types, references, cycles, arity, attributes, number of nodes,
// nesting. Throws FileError if the file is malformed.
NodeOutputs load(const std::string& text, const std::string& source, const FileHooks& hooks);

}  // namespace mxlite::symbol
