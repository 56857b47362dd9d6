// A packing is a group of instructions that depend only on parameters and exchange no values with
// other packings. Most packings compute the packed weight of one layer. Executables of a network
// for several input shapes mostly have the same packings, so they share the results
// (packed_weights.h).
#pragma once
#include <vector>

#include "cpp/graph/run/program.h"
#include "cpp/graph/run/steps.h"

namespace mxlite::graph {

// A value that the main part reads and that has the elements of a parameter, cast or transposed.
struct Conversion {
  int parameter = -1;  // an index into Packing::parameters
  DType from = DType::kFloat32, to = DType::kFloat32;
  Shape shape;
  Strides strides;    // the parameter's strides along the axes of the value, which is contiguous
  size_t offset = 0;  // in the packed memory
};

struct Packing {
  Packing(Program part, std::vector<int> used, Device device);

  // A program whose instructions are all in `prologue`. Buffers at Place::kPacked lie in one block.
  const Program program;
  const std::vector<int> parameters;  // for each parameter of `program`: its position among the
                                      // parameters of the whole program
  const Slots slots;
  const Steps steps;
  const size_t hash;
  // On a GPU: if not empty, these conversions do the same as the steps. One kernel converts the
  // parameters of many packings (see PackedWeights).
  const std::vector<Conversion> conversions;
};
// Returns whether both packings compute the same values at the same offsets from parameters at the
// same positions. One packing can then replace the other.
bool same_packing(const Packing& a, const Packing& b);

// Moves the prologue of a program into `packings`. A buffer that the main part reads gets the index
// of its packing and its offset in the packing's memory. Runs before plan_memory.
void split_prologue(Program& program, const PassContext& context);

}  // namespace mxlite::graph
