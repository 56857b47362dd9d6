// The states of all generators, for checkpoints: once restored, the same calls draw the same
// numbers.
#pragma once
#include <utility>
#include <vector>

#include "cpp/core/random.h"

namespace mxlite {

struct AllRandomStates {
  uint64_t seed = 0;  // seed of devices that have drawn nothing yet
  std::vector<std::pair<Device, RandomState>> devices;
};

AllRandomStates random_states();
void set_random_states(const AllRandomStates& all);

// Returns the seed of one pass over a data set. It follows the seed of cpu(0), whose generator
// stays where it is: what a network draws does not depend on how its data are loaded.
uint64_t draw_loading_seed();

}  // namespace mxlite
