// Helpers of passes that add calls of operators.
#pragma once
#include <set>
#include <string>

#include "cpp/graph/graph.h"
#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// Returns a call of an operator. Throws if a text is not valid for its parameter.
CallRef named_call(const std::string& op, Attributes attrs, graph::NodeName name);
// Returns the name of a variable, or of an operator's output, such as "fc1_output".
std::string value_name(const graph::Graph& graph, graph::ValueId v);
// Returns `name`, with a number at the end if the name is taken. Adds the result to `taken`.
std::string free_name(std::set<std::string>& taken, const std::string& name);

}  // namespace mxlite::symbol
