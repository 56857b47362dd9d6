// The states of all generators, for checkpoints. After a state is restored, the same numbers are
// drawn.
#pragma once
#include <utility>
#include <vector>

#include "cpp/core/random.h"

namespace mxlite {

struct AllRandomStates {
  uint64_t seed = 0;  // seed of devices that have not drawn any number yet
  std::vector<std::pair<Device, RandomState>> devices;
};

AllRandomStates random_states();
void set_random_states(const AllRandomStates& all);

// Returns the seed of one pass over a data set, derived from the seed of cpu(0). The generator of
// cpu(0) does not advance, so the numbers that a network draws do not depend on data loading.
uint64_t draw_loading_seed();

}  // namespace mxlite
