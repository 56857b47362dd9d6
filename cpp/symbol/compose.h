// Creates the node of an operator call. Inputs that are not given become variables with the same
// names as in 1.x.
#pragma once
#include <map>
#include <string>

#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// Arguments of an operator call. `attrs` includes attributes of inputs (weight_lr_mult).
struct Given {
  std::string alias;  // name with which the caller called the operator
  std::map<int, NodeOutput> inputs;
  Attributes attrs;
};

// Returns a call without a name. Parses the parameters in `attrs`. Throws if a text is not valid
// for its parameter.
Call make_call(const std::string& file_op, Attributes attrs);

// Returns the name of the attribute (num_args) that holds the number of inputs of a variadic
// operator.
std::string count_attribute(const OpSchema& op, const std::string& file_op);

// Returns the names of the inputs of a variadic operator, or an empty list if they are arg0, arg1,
// ...
std::vector<std::string> named_inputs(const OpSchema& op, const std::string& file_op,
                                      const Attributes& attrs);

// Returns the attributes of the variable that is created for an input: `attrs` and the input's
// initializer.
Attributes variable_attrs(const std::string& file_op, const std::string& input, Attributes attrs);

// Returns a new node for the call. The node gets the name `name`.
NodeRef compose(Given given, graph::NodeName name);

}  // namespace mxlite::symbol
