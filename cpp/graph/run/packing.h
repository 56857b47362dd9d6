// The instructions that depend on parameters alone, divided into packings that exchange no values:
// one for each layer's packed weight. Executables of one network for other input shapes mostly have
// the same packings, so their results are shared (packed_weights.h).
#pragma once
#include <memory>
#include <vector>

#include "cpp/graph/run/program.h"
#include "cpp/graph/run/steps.h"

namespace mxlite::graph {

struct Packing {
  Packing(Program part, std::vector<int> used, Device device);

  // Only `prologue` has instructions; buffers at Place::kPacked lie in memory of packed_bytes.
  const Program program;
  const std::vector<int> parameters;  // parameters of the whole program, by parameter of `program`
  const Slots slots;
  const Steps steps;
  const size_t hash;
};
// Returns whether both compute the same values at the same places from parameters at the same
// positions, so that one can replace the other.
bool same_packing(const Packing& a, const Packing& b);

// Moves the prologue into `packings`. Values that the main part reads get their final place: the
// buffer's index is the packing's. Runs before plan_memory.
void split_prologue(Program& program, const PassContext& context);

}  // namespace mxlite::graph
