// Operators of numpy mode in -symbol.json files of MXNet 1.9.1.
#pragma once
#include <string>

#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// Applies to operators that 1.9.1 calls _np_*, _npi_* or _npx_*. Replaces the name and the
// attributes by those of the engine's operator. Other operators, and operators that the engine
// knows by such a name, remain unchanged. If `known` is true, the caller can also run `op` under
// its own name. The name then changes only if the engine's operator accepts the same attributes.
void translate_numpy(std::string& op, Attributes& attrs, bool known);
// Returns the name of an operator in a file of numpy mode. In such files, `where` of 1.9.1 does not
// accept booleans, and _matmul is missing.
std::string numpy_file_name(const std::string& op);

}  // namespace mxlite::symbol
