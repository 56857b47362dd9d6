// The order in which blocks and threads of a launch run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emulation {

inline constexpr int kResidentBlocks = 4;

// `order` is "" for the order of numbers, "reversed", or a number that seeds a random schedule. In
// a random schedule up to `resident_blocks` blocks take turns at barriers, warp operations, atomics
// and other accesses to memory. Until this is called, the environment variables
// MXLITE_EMULATED_ORDER and MXLITE_EMULATED_BLOCKS decide.
void set_order(const std::string& order, int resident_blocks = kResidentBlocks);

// Returns how to repeat a random schedule: " with MXLITE_EMULATED_ORDER=5
// MXLITE_EMULATED_BLOCKS=4". Empty if the order is not random.
std::string describe_order();

// The choices of one launch. They depend on the seed, the kernel's name and the launch's size only,
// so that a test that failed among others fails alone, too.
class Schedule {
 public:
  void begin(const char* kernel, uint64_t blocks, uint64_t threads);

  bool random() const { return random_; }
  size_t resident_blocks() const { return resident_blocks_; }

  // Writes a permutation of 0 .. count - 1.
  void order(std::vector<uint32_t>& order, size_t count);
  // Returns which of `count` candidates, oldest first, runs next.
  size_t pick(size_t count);
  // Returns whether something happens that has the probability 1 / `one_in`; never in a fixed
  // order.
  bool happens(uint64_t one_in);
  // Returns whether another block runs next, after one fiber of a block ran. Turns of blocks that
  // have much shared memory to copy are longer.
  bool turn_ends(size_t shared_bytes) { return happens(3 + shared_bytes / 256); }
  // Returns how long a block sleeps when its thread was paused, as a number of other blocks'
  // fibers.
  uint64_t sleep();
  // Returns the number of memory accesses until the next switch. The number grows during long
  // launches.
  int accesses();

 private:
  uint64_t draw();

  bool random_ = false, reversed_ = false;
  size_t resident_blocks_ = 1;
  uint64_t state_ = 0, mean_accesses_ = 1, gaps_ = 0;
};

}  // namespace emulation
