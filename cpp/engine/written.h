// Asks whether arrays have been computed, without waiting.
#pragma once
#include <span>

#include "cpp/engine/var.h"

namespace mxlite::engine {

class Engine;

// Returns whether the last write of each variable is done, with a value or with a failure.
bool are_written(Engine& engine, std::span<Var* const> vars);

}  // namespace mxlite::engine
