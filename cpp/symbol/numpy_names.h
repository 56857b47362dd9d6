// Operators of numpy mode in -symbol.json files of MXNet 1.9.1.
#pragma once
#include <string>

#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// Replaces the name and the attributes of an operator that 1.9.1 calls _np_*, _npi_* or _npx_* by
// those of the engine's operator. Leaves other operators, and those that the engine knows by such a
// name, unchanged. `known` says that the caller can also run `op` under its own name; the name then
// changes only if the engine's operator accepts the same attributes.
void translate_numpy(std::string& op, Attributes& attrs, bool known);
// Returns the name of an operator in a file of numpy mode, where 1.9.1's `where` takes no bools and
// _matmul is missing.
std::string numpy_file_name(const std::string& op);

}  // namespace mxlite::symbol
