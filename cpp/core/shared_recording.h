// Recorded work of a GPU in which several processes take part: what they agree on before each run.
#pragma once
#include <array>
#include <cstdint>

namespace mxlite {

// Says what a process can do with a run.
enum class GraphWay : int32_t { kStepByStep, kRecord, kReplay };

// Numbers of the recordings that a process could replay in a run; 0 for none. There are several if
// other processes have alternated between memory.
using Recordings = std::array<uint64_t, 8>;

// Something that refers to a communicator and must let go before the communicator ends.
class CommunicatorUser {
 public:
  virtual ~CommunicatorUser() = default;
  // Does not wait for work on the GPU. Thread-safe.
  virtual void let_go() noexcept = 0;
};

}  // namespace mxlite
