// Symbols as text in the layout of MXNet 1.9.1's -symbol.json files, and back.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// A fault of the file itself.
class FileError : public Error {
 public:
  explicit FileError(std::string message) : Error(ErrorKind::kValue, std::move(message)) {}
};

inline constexpr size_t kMaxNodes = 1'000'000;  // in a file, with those of subgraphs
inline constexpr int kMaxDepth = 16;            // levels of nested subgraphs

// A subgraph of a file: its outputs, and its variables in the order of the file.
struct LoadedGraph {
  Entries heads;
  std::vector<NodeRef> variables;
};

// A node of control flow with its subgraphs, as the functions below exchange it.
struct LoopParts {
  Call call;
  Entries inputs;
};
struct SavedLoop {
  Attributes attrs;
  std::vector<Entries> graphs;
};

// Tells files what they need to know of calls that are no operators of the registry.
struct FileHooks {
  std::function<Call(const std::string& op, const Attributes& attrs)> make_call;
  // A call of a loop or branch from what the file says of it; `label` begins its errors.
  std::function<LoopParts(const std::string& op, const Attributes& attrs, const Entries& inputs,
                          const std::vector<LoadedGraph>& graphs, const std::string& label)>
      load_loop;
  std::function<SavedLoop(const NodeRef& node)> save_loop;
  bool np_shape = false;  // unknown extents are -1
};

// Returns what 1.9.1 writes for the same graph, character by character.
std::string to_json(const Entries& heads, bool remove_amp_cast, const FileHooks& hooks);

// The outputs of a graph that any MXNet 1.x wrote; `source` names the file in errors. The whole
// graph is checked: types, references, cycles, arity, attributes, number of nodes, nesting.
Entries load(const std::string& text, const std::string& source, const FileHooks& hooks);

}  // namespace mxlite::symbol
