// Tests without waiting whether arrays have been computed, and reports writes to parts of arrays.
#pragma once
#include <span>

#include "cpp/engine/var.h"

namespace mxlite::engine {

class Engine;

// Returns whether the last write of each variable has ended, successfully or with a failure.
bool are_written(Engine& engine, std::span<Var* const> vars);

// Like Engine::host_wrote, but for a part of the memory: increments the version and keeps an
// earlier failure.
void host_wrote_part(Engine& engine, Var& var);

}  // namespace mxlite::engine
