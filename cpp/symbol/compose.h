// Makes the node of an operator's call: inputs that are left out become variables with 1.x's names.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// Holds what a call was given. Attributes of inputs (weight_lr_mult) are among `attrs`.
struct Given {
  std::string alias;  // as the operator was called
  std::map<int, NodeOutput> inputs;
  Attributes attrs;
};

// A call of an operator with these attributes, and the parameters that are among them; texts that
// are no values are errors. It has no name yet.
Call make_call(const std::string& file_op, Attributes attrs);

// The attribute that says how many inputs a call of a variadic operator has.
std::string count_attribute(const OpSchema& op, const std::string& file_op);

// The names of the inputs of a variadic operator; empty if they are arg0, arg1, ...
std::vector<std::string> named_inputs(const OpSchema& op, const std::string& file_op,
                                      const Attributes& attrs);

// Attributes of the variable that is made for an input: the operator's own, and how it begins.
Attributes variable_attrs(const std::string& file_op, const std::string& input, Attributes attrs);

// Returns a new node for the call, named `name`.
NodeRef compose(Given given, graph::NodeName name);

}  // namespace mxlite::symbol
